"""A walk through the generated package: four places that keep objects, one way to use them.

Writes notes into memory, copies them into a folder and a database, packs the folder into an archive, restores from the
archive, and shows what each refusal says. Everything happens in a temporary folder.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "generated"))

import storage


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="storage-tour-") as name:
        walk(Path(name))


def walk(home: Path) -> None:
    scratch, notes, database = storage.Memory("scratch"), storage.Folder(home / "notes"), storage.Sqlite(home / "n.db")

    say("Put three objects into memory, and copy them into a folder and from there into a database")
    for key, text in {"read.me": "Start here.", "letters/anna.txt": "Dear Anna", "letters/ben.txt": "Dear Ben"}.items():
        storage.put(scratch, key, text.encode())
        storage.copy_to(scratch, key, notes)
        storage.copy_to(notes, key, database)
    print("memory:  ", ", ".join(storage.list(scratch)))
    print("folder:  ", ", ".join(path.relative_to(home).as_posix() for path in sorted(home.glob("notes/**/*.*"))))
    print("database:", ", ".join(storage.list(database, "letters/")))

    say("Pack the folder, lose the folder, and restore it from the archive")
    backup = storage.open_store(f"archive:{shutil.make_archive(str(home / 'backup'), 'zip', notes.location)}")
    shutil.rmtree(notes.location)
    print("before:", storage.list(notes))
    for key in storage.list(backup):
        storage.copy_to(backup, key, notes)
    print("after: ", storage.list(notes))

    say("Read through a cache: what others change is seen after forget")
    remembering = storage.cached(notes)
    seen = [storage.get(remembering, "read.me")]
    storage.put(notes, "read.me", b"Start there.")
    seen.append(storage.get(remembering, "read.me"))
    storage.forget(remembering)
    seen.append(storage.get(remembering, "read.me"))
    print(*seen)

    say("An archive takes no changes, and says so before or when asked")
    print("is_writable:", storage.is_writable(backup), " fits:", storage.fits(backup, 1))
    try:
        storage.put(backup, "read.me", b"No.")
    except storage.NotWritable as error:
        print(str(error).replace(str(home), "<home>"))

    say("A misspelt store and a missing object")
    for attempt in ("floder:notes", str(scratch)):
        try:
            storage.get(attempt, "letters/carl.txt")
        except (storage.UnknownStore, storage.MissingKey) as error:
            print(error)


def say(what: str) -> None:
    print(f"\n== {what}")


if __name__ == "__main__":
    main()
