"""A small clean spec and a small template set that have nothing to do with tensors, to be changed by tests."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest

from dispatchgen.features import Build, Selection, resolve
from dispatchgen.findings import Finding
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import Catalog
from dispatchgen.template_set import TemplateSet, read_set
from dispatchgen.validate import validate

BASE = Path(__file__).parents[1] / "cases" / "_base"


@pytest.fixture
def toy_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project that the case folders start from, as the working folder, with a cache of its own."""
    shutil.copytree(BASE, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPATCHGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


SET = """\
version: 1
name: plain
decisions: {not_capable: no_power, not_built: left_out, no_kernel: unwritten, no_transfer: no_way, wrong_wrapper: bare}
capabilities: [{name: talks, engines: [wire, radio]}]
wrappers: [{name: Logged, key: logged}]
backend_keys:
  - {name: place, type: text, identity: true}
  - {name: floor, type: number, identity: true}
  - {name: tags, type: list, values: [red, blue]}
op_keys: [{name: fast, type: flag}]
routes: [{name: value, argument: value}, {name: spot, argument: spot}]
arguments:
  - {name: value, public: Value, arm: Value, kernel: int, pass: '{name}.raw'}
  - {name: spot, public: Spot, arm: Spot, kernel: '', pass: ''}
  - {name: way, public: Way, arm: Way, kernel: Way, pass: '{name}', choices: [UP, DOWN], choice: 'Way.{name}'}
  - {name: patience, public: float, arm: float, kernel: float, pass: '{name}', keyword: true}
returns:
  - {name: none, public: 'None', kernel: 'None', wrap: '{value}'}
  - {name: truth, public: bool, kernel: bool, wrap: '{value}'}
  - {name: value, public: Value, kernel: int, wrap: 'Value({value})'}
  - {name: later, public: 'Later[{of}]', kernel: 'Later[{of}]', wrap: '{value}'}
situations:
  - {name: no_power, fields: [who]}
  - {name: left_out}
  - {name: unwritten}
  - {name: no_way}
  - {name: bare}
reserved: [Spot]
files:
  - {template: main.jinja, path: main.py}
  - {template: shops.jinja, path: 'shops/{module}.py', each: backend}
  - {template: work.jinja, path: 'work/{module}.py', each: family}
"""

BACKENDS = """\
version: 1
package: workshop
features:
  default: [hammer, logged]
  hammer: []
  saw: []
  night: [saw]
  logged: []
cfgs:
  any_tool: any(feature = "hammer", feature = "saw")
wrappers:
  - {name: Logged, cfg: feature = "logged"}
backends:
  - name: Hammer
    id: 0
    cfg: feature = "hammer"
    place: bench
    kernels: shops.hammer:Hammer
    talks: {engine: wire}
    priority: 1
  - name: Saw
    id: 7
    cfg: feature = "saw"
    kernels: shops.saw:Saw
    logged: false
  - name: Box
    id: 9
    cfg: any_tool
    kernels: shops.box:Box
    transfer: into
    logged: false
    runtimes:
      - {name: nails, talks: {engine: radio}}
      - {name: bolts, cfg: feature = "night"}
"""

OPS = """\
version: 1
family: WorkOps
doc: What is done.
requires: talks
ops:
  - name: lift
    doc: Lift it.
    route: value
    fast: true
    args:
      - {name: value, type: value, doc: What is lifted.}
      - {name: way, type: way}
      - {name: patience, type: patience, default: null}
    returns: {type: later, of: value}
    otherwise: error
    backward:
      UP: {op: lift, with: DOWN}
  - name: is_heavy
    doc: Whether it is heavy.
    route: value
    args: [{name: value, type: value}]
    returns: {type: truth}
    otherwise: false
  - name: log
    doc: Write it down.
    route: value
    wrapper: Logged
    args: [{name: value, type: value}]
    returns: {type: none}
    otherwise: error
"""

MOVE = """\
version: 1
family: MoveOps
doc: What is carried.
ops:
  - name: carry
    doc: Carry it elsewhere.
    route: value
    args: [{name: value, type: value}, {name: spot, type: spot}]
    pair: {argument: spot, out: take_out, into: put_in}
    returns: {type: value}
"""

ERRORS = "version: 1\nerrors:\n" + "".join(
    f"""\
  - code: WS10{number}
    class: {name}
    when: {when}
    message: '{{op}} on {{subject}}'
    reason: because
    help: do something
    cause: It happens.
    example: {{before: a, after: b}}
"""
    for number, (name, when) in enumerate(
        [
            ("NoPower", "no_power"),
            ("LeftOut", "left_out"),
            ("Unwritten", "unwritten"),
            ("NoWay", "no_way"),
            ("Bare", "bare"),
        ]
    )
)


@dataclass
class Workshop:
    """The spec folder and the template set, to be changed and read."""

    root: Path

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that stands in a file exactly once."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
        self.write(name, text.replace(old, new))

    @property
    def template_set(self) -> TemplateSet:
        template_set, findings = read_set(self.root / "set")
        assert template_set is not None, findings
        assert findings == ()
        return template_set

    def read(self) -> tuple[Catalog | None, tuple[Finding, ...]]:
        return read_catalog(self.root / "spec", self.template_set)

    @property
    def catalog(self) -> Catalog:
        catalog, findings = self.read()
        assert catalog is not None, findings
        assert findings == ()
        return catalog

    def build(self, *features: str, default: bool = True) -> Build:
        build, findings = resolve(self.catalog, Selection(features, default))
        assert build is not None, findings
        return build

    def validate(self, build: Build | None = None, today: date | None = None) -> tuple[Finding, ...]:
        return validate(self.catalog, self.template_set, build=build, today=today)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.chdir(tmp_path)
    made = Workshop(Path())
    files = {"set/set.yaml": SET, "spec/backends.yaml": BACKENDS, "spec/errors.yaml": ERRORS}
    for name, text in {**files, "spec/ops/move.yaml": MOVE, "spec/ops/work.yaml": OPS}.items():
        made.write(name, text)
    return made
