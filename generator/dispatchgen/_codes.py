"""Every finding code with one paragraph about it: what it means, why it is found, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CODES: Mapping[str, str] = MappingProxyType(
    {
        # Reading YAML
        "DG101": (
            "The file is not UTF-8. Spec files are text in UTF-8, with or without a byte order mark. Save the "
            "file again with that encoding; the message says which byte is the first wrong one."
        ),
        "DG102": (
            "The file holds a character that nobody sees: a control character, an exotic line break, a zero-width "
            "character or one that turns the direction of text. It may make a line look different from what it "
            "says. Delete it."
        ),
        "DG103": (
            "The file is not valid YAML. The place is where the parser stopped; the mistake is there or shortly "
            "before it. Often a value only needs quotes: text that begins with a special character, or that has a "
            "colon and a space in it."
        ),
        "DG104": (
            "A YAML tag (`!name` or `!!type`) asks for a type. Spec files need none: `true`, `false`, decimal "
            "integers and null are what they look like, all else is text."
        ),
        "DG105": (
            "An anchor (`&name`) or alias (`*name`) reuses a value from elsewhere in the file. Spec files write "
            "every value out where it is used, so that every fact has exactly one place."
        ),
        "DG106": "The merge key `<<` copies another mapping into this one. Spec files write every key out.",
        "DG107": "The file holds several YAML documents, separated by `---`. A spec file holds one.",
        "DG108": "The top level of the file is not a mapping of keys to values, or the file is empty.",
        "DG109": (
            "The same key stands twice in one mapping. YAML readers usually keep the last one silently; here it "
            "is an error, and the related place shows the first."
        ),
        "DG110": "A key is a list or a mapping. Keys are text.",
        "DG111": (
            "Values are nested too deeply. No catalog needs that; it is most likely a slip of brackets or indentation."
        ),
        "DG112": "A file or folder that a catalog or a template set consists of is not there, or cannot be read.",
        "DG113": (
            "A key that the format does not know. Keys that only one template set understands must be declared in "
            "its set.yaml."
        ),
        "DG114": (
            "A key that the format demands is missing. The place is the entry that should have it; the message names "
            "the key."
        ),
        "DG115": (
            "A value has the wrong type or is not one of the allowed ones. Quoted values are always text; `true`, "
            "`false`, decimal integers and null are text only in quotes."
        ),
        "DG116": (
            "The file says a format version that this generator does not read. The version changes only when the "
            "format does."
        ),
        "DG117": (
            "An overlay has an entry that the catalog, or an earlier overlay, has already. Two entries of one name are "
            "most likely a mistake; `override: true` in the entry says that it changes the other one, key by key."
        ),
        "DG118": (
            "An overlay says that it changes an entry, or adds to a family, that is not there. It may have been "
            "renamed or removed since."
        ),
        "DG119": (
            "A file in the spec folder ends in `.yml` or `.YAML`, or lies in a folder below `ops`, and is not read: the "
            "files of a catalog end in `.yaml`, and families are in `ops/*.yaml`. Or there is no family of operations, so "
            "that the package would do nothing."
        ),
        # Predicates and features
        "DG201": (
            'A cfg predicate cannot be parsed. The grammar is that of Rust\'s cfg: `feature = "x"`, the bare name '
            "of a derived cfg, `all(…)`, `any(…)`, `not(…)`, `true`, `false`."
        ),
        "DG202": (
            "An `all()` or `any()` has nothing in it. The first is always true and the second always false; write "
            "`true` or `false` if that is meant."
        ),
        "DG203": "A predicate names a feature that `features:` does not declare, so it can never hold.",
        "DG204": (
            "A predicate names a derived cfg that `cfgs:` does not declare, so it can never hold. A feature is "
            'written `feature = "x"`.'
        ),
        "DG205": "A feature turns on another one that `features:` does not declare.",
        "DG206": "Features turn each other on in a circle. Each of them then means the same; one name is enough.",
        "DG207": "The definition of a derived cfg leads back to itself, so nothing can say whether it holds.",
        "DG208": "The build was asked for a feature that the catalog does not declare.",
        "DG209": "No predicate names this feature and it turns nothing on: switching it changes nothing.",
        "DG210": "No predicate names this derived cfg, so its definition changes nothing. Name it, or take it out.",
        "DG211": (
            "The name of a feature, cfg or runtime may consist of ASCII letters, digits and `_ + . -` only, and a "
            "cfg may not be called like a word of the predicate grammar."
        ),
        # Backends
        "DG301": (
            "A name that becomes a name in Python cannot be one: it is no ASCII identifier, begins with an "
            "underscore, is a keyword or a builtin, or is used by the generated modules themselves."
        ),
        "DG302": (
            "Two things get the same name in the generated package: equal names, names that differ by case only, "
            "or two files with the same path."
        ),
        "DG303": (
            "Two backends have the same id. Ids are part of what is stored and sent, so each belongs to one "
            "backend for good."
        ),
        "DG304": "The id of a backend is not within 0 to 65535.",
        "DG305": "The template set does not know this engine for the capability.",
        "DG307": "The catalog lists a wrapper that the template set does not declare.",
        "DG308": (
            "Two backends have the same priority, so nothing would say which of them the default device belongs to."
        ),
        "DG309": (
            "The build has two backends that stand for the same thing: all their identity keys are equal. Turn a "
            "feature off, or tell them apart with another key."
        ),
        "DG310": (
            "The place of the kernels is not of the form `package.module:Class`, or a keyword of Python is part of it."
        ),
        "DG311": (
            "A backend has two runtimes of one name, or says a capability for all of itself although it has "
            "runtimes. Capability is asked of the runtime, so each runtime says its own."
        ),
        "DG312": (
            "The name of the generated package is missing, cannot be the name of a package, or is that of the package in "
            "which kernels are, so that one of the two would hide the other."
        ),
        "DG313": (
            "A backend promises a capability and names no `kernels`, so every operation of the capability ends in "
            "an error."
        ),
        # Operations
        "DG401": (
            "The name of an operation, a family or an argument cannot be a name in Python, or is used by the "
            "generated modules themselves."
        ),
        "DG402": (
            "Two operations, families or arguments have the same name, or names that become the same in the "
            "generated package."
        ),
        "DG403": (
            "The template set does not declare this route. A route says which argument of an operation the device is "
            "taken from; the set.yaml lists those that its templates know."
        ),
        "DG404": (
            "The template set does not declare this argument type. The set.yaml says for each what it is in the public "
            "function, in the arm and in the kernel."
        ),
        "DG405": "The template set does not declare this return type, or an `of` stands where none belongs.",
        "DG406": "The family requires a capability that the template set does not declare.",
        "DG407": "The operation has no argument of the type that its route takes the device from.",
        "DG408": (
            "`otherwise` says what an operation does where the capability is missing. It is demanded where the "
            "family requires one, has no meaning where it does not, and must fit what the operation returns."
        ),
        "DG409": "The operation insists on a wrapper that the template set does not declare.",
        "DG410": (
            "The operation of the gradient is not one of the catalog. A backward rule names the operation that is called "
            "with the gradient."
        ),
        "DG411": (
            "A backward rule does not fit its operation: it names a choice that no argument can take, an argument that "
            "is not there, or an operation that needs an argument which the forward one has not."
        ),
        "DG412": (
            "The `pair:` of an operation does not fit it: its argument is not there, or a kernel method has no "
            "proper name."
        ),
        "DG413": (
            "An exception between two backends names one that is not there, stands twice, or belongs to an "
            "operation without `pair:`."
        ),
        "DG414": "An argument without a default follows one that has a default. Python allows no such function.",
        "DG415": "The default of an argument is a word of Python in a place for YAML's: `None` there is a text of four letters, and `null` is nothing.",
        # Errors and exemptions
        "DG501": (
            "No entry of errors.yaml says what is told when this situation arises. Each situation of the template "
            "set needs exactly one."
        ),
        "DG502": "Two entries of errors.yaml speak about the same situation.",
        "DG503": (
            "The template set does not declare this situation, so nothing would ever tell this error. The set.yaml "
            "lists what can go wrong."
        ),
        "DG504": "Two errors have the same code. People search for codes; each belongs to one error.",
        "DG505": "The code of an error is not of the form two or more capital letters, three or more digits.",
        "DG506": (
            "The class of an error is no proper name, or two errors have the same one, or something else in the package is "
            "called so."
        ),
        "DG507": "The text of an error uses a field that its situation does not give.",
        "DG508": ("The text of an error is no valid template: fields are `{name}`, and braces themselves are doubled."),
        "DG509": "The guard of an error is none that the template set declares, or has no proper name.",
        "DG521": "An exemption names a backend or an operation that is not there.",
        "DG522": "An exemption answers with a situation that the template set does not declare.",
        "DG523": "The last day of an exemption is no date of the form YYYY-MM-DD.",
        "DG524": "The last day of an exemption has passed. Write the kernel, or decide anew and set another day.",
        "DG525": "An exemption names neither a backend nor an operation, so it would excuse everything.",
        "DG526": "Two exemptions excuse the same thing, so nothing says which reason and which day count. Keep one.",
        "DG527": "The reason of an exemption is empty. Whoever reads it later wants to know why it is there.",
        # Template sets
        "DG601": "A part of the template set speaks of something that the set does not declare.",
        "DG602": (
            "The template set declares the same name twice, or as the name of a key that has a meaning already, so the "
            "name would not say which is meant."
        ),
        "DG603": (
            "The path of a generated file leaves the package, or does not say which family or backend it is for."
        ),
        "DG604": "A statement or the shape of an arm in set.yaml is no piece of Python, or uses a field that things of its kind do not have.",
        # Generated files
        "DG701": "A template does not render: it uses something undefined, prints a value that is no text without a filter such as `py`, or a method that is not called, is not valid Jinja, is not there, or is taken in under a name that is computed. The place is the line of the template that was being rendered.",
        "DG702": "What a template rendered is not Python, or Python warns about it. Nothing is written; the text is kept in the temporary file that the message names.",
        "DG703": "The formatter refuses the rendered text. Nothing is written; the text is kept in the temporary file that the message names.",
        "DG704": "A generated file would lie outside of its package, or would take a name that is kept back: hidden names and the manifest's own.",
        "DG705": "There is a link in the package folder. The generator follows none, so that it never writes anywhere else; with a link in its way it writes nothing at all.",
        "DG706": "Something in the package folder is neither a plain file nor a folder, or is a folder where a file belongs or the other way round.",
        "DG707": "A file that is about to be overwritten was edited by hand since it was generated, or was never generated. Nothing is written. Move the change into the spec or a template; `--force` gives it up.",
        "DG708": "The manifest of the package is damaged, so nobody can tell generated files from edited ones. Restore it from version control. If that is impossible, `dispatchgen generate` writes it anew, and needs `--force` where files changed as well.",
        "DG709": "A file is not generated any more and would be deleted, but it was edited by hand since, so it stays.",
        "DG711": "The file is not what the spec makes of it now: the spec changed, or the package was generated with other features. Run `dispatchgen generate`.",
        "DG712": "The file is not what its template makes of it now: the template changed, or one that it takes in. Run `dispatchgen generate`.",
        "DG713": "The file was generated by another version of the generator, of jinja2 or of the formatter, which may make something else of the same spec and template. Nothing of yours has to change: run `dispatchgen generate` and commit the result by itself, or install the versions that the package was made with; the manifest names them.",
        "DG714": "The content of the file is not what was generated, so somebody edited it. The next change of the spec would be refused because of it. Move the change into the spec or a template.",
        "DG715": "A file that belongs to the package is not there. Run `dispatchgen generate`.",
        "DG716": "A file lies in the package folder that nothing generates and no manifest lists. Everything in there is generated; the generator deletes nothing that it did not write.",
        "DG717": "A run of `dispatchgen generate` was cut off, so the package is a mix of old and new files. Each of them is whole. Run `dispatchgen generate` once more.",
        "DG718": "A JSON Schema in the schema folder of the spec is not what the format and the template set make of it now, so editors would complete and complain wrongly. Run `dispatchgen schema`.",
        "DG719": "A folder of templates over a template set has one that has no counterpart in the set and that no template takes in, so it does nothing. Its name is probably misspelt.",
        # Completeness
        "DG801": "The class that `kernels` names cannot be found. Modules are looked for in the folders of `sources`, in runtime, src and the current folder, on Python's path, and by the metadata of installed distributions; no code is run.",
        "DG802": "The catalog promises an operation on a backend and the class of its kernels has no such method. The message says what to write and where.",
        "DG803": "A kernel method is a stub: `pass`, `...`, only a docstring, or NotImplementedError. Write it, or exempt it with a reason and an end.",
        "DG804": "A kernel method does not take what it is called with: parameters are passed by position, and names, order and annotations must be those of the catalog. Annotations are compared as text, modules in front of names left aside.",
        "DG805": "A public method of a kernel class that no operation forwards to: an operation was renamed or removed, or is missing in the catalog.",
        "DG806": "The catalog promises operations on a backend and names no `kernels` for it, so each of them would be refused.",
        "DG807": "An exemption excuses nothing: every kernel that it speaks of is there, or the catalog promises none.",
        "DG808": "An exemption that is in force: a kernel is knowingly missing until the day that the message names.",
        "DG821": "A generated file cannot be read as Python.",
        "DG822": "A function of the generated code does nothing.",
        "DG823": "The generated code lacks the function of an operation, or that function does not use what is bound for it.",
        "DG824": "The generated code lacks the function that binds an operation to the arm of a device.",
        "DG825": "The match of an operation does not name every variant of the build exactly once, or names something that is not in the build.",
        "DG826": "The arm of a variant does not do what the matrix says: it does not forward to its kernel, forwards where there is none, or answers with another error.",
        "DG827": "A generated file does not say something that it has to say for a thing of the catalog, as `statements` in set.yaml declares it.",
        "DG828": "A generated file says something else of a thing of the catalog than what `statements` in set.yaml declares.",
        "DG829": "A generated file says something twice, or something for which nothing in the catalog stands.",
        "DG831": "`check --self-test` made a gap on a copy, and the check did not find it, or not where it is.",
        "DG832": "`check --self-test` has nothing to work on.",
        "DG833": "Files are made by templates of an overlay, so they need not be written as `set.yaml` of the template set tells, and only what holds for every set is checked.",
        "DG834": (
            "A statement at the top of a generated file takes back, or may take back, what another one says: it gives a "
            "name a second value, imports by `*`, or changes something after it was made. What is read is then not what "
            "runs. Correct the template: everything is to be written once, where it is made."
        ),
        # Changes
        "DG901": "A change that breaks those who rely on what was there: calls, builds, stored ids, error codes that are looked for, or kernels of other projects. The message ends in the reason. Give the package a new major version, or keep the old name or value beside the new one.",
        "DG902": "A change that adds something, and takes nothing away. It asks for a new minor version.",
        "DG903": "A change that only people read, or that programs cannot see. It asks for a new patch version.",
    }
)
