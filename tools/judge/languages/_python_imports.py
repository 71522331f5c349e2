"""Imports of a Python program: modules beside it are read, and modules that it may import late are reported: ``@loads PATH``.

An import is late if earlier statements may take time, so that the module may change between the judgement and the import.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from toolcrib.contract.regex import Regex
from tools.judge.languages._python_effects import PythonEffects, acts, canonical
from tools.judge.languages._things import Name, Thing, parse
from tools.judge.meaning.value import ANYTHING, Taint, Value

_OWN = Regex(r"(?:agent|model_tools)(?:\.(?!\*)|$)|toolcrib\.(?:Agent|\*|_(?!_)\w*|contract)(?:\.|$)|tools\.approval(?:\.|$)")
"""toolcrib's own code, except its public types: only a user may run it."""
_AT_ONCE = frozenset(
    """print len str int float bool dict list set tuple range zip isinstance getattr repr format frozenset
    sys.path.insert sys.path.append os.getenv os.environ.get os.environ.setdefault os.getcwd os.path.join os.path.dirname
    os.path.abspath os.path.realpath os.path.basename os.path.exists pathlib.Path .resolve .absolute .joinpath .setdefault .parent
    logging.getLogger logging.basicConfig warnings.filterwarnings warnings.simplefilter argparse.ArgumentParser .add_argument
    .append .get .update .strip .split .format .join .startswith .endswith .lower .upper re.compile typing.TypeVar typing.cast
    collections.namedtuple typing.NamedTuple flask.Flask fastapi.FastAPI dotenv.load_dotenv""".split()
)
"""Functions that return at once: they call none of their arguments."""


class PythonImports(PythonEffects):
    """Reads imports. ``late``: what is read now may run after calls that take time."""

    late = False
    unsure = 0
    """Number of branches and loops around the statement."""
    path: str
    loaded = frozenset(
        (
            *sys.builtin_module_names,
            *"os io abc site stat posixpath genericpath codecs encodings zipimport _collections_abc".split(),
        )
    )
    """Modules that were certainly loaded at once, by Python or by the program."""
    names: dict[str, Thing]
    fixed: dict[str, Thing]

    def run(self, tree: ast.Module) -> None:
        raise NotImplementedError

    def let(self, name: str, thing: Thing) -> None:
        raise NotImplementedError

    def called(self, function: Thing) -> None:
        """Record that what follows the call of ``function`` is late, unless the function returns at once."""
        self.late = self.late or not (isinstance(function, Name) and function.path in _AT_ONCE)

    def report_imports(self, *names: str) -> None:
        """Report imports of toolcrib's own code. The report says ``beside`` if the project has a package or module of that name;
        the import of such a module itself is not reported.
        """
        for name in names:
            top = name.partition(".")[0]
            if _OWN.match(name) and not name.endswith("__"):
                module, package = (self.tell.sink.inspect_path(f"{top}{end}").kind == "file" for end in (".py", "/__init__.py"))
                beside = top in ("agent", "model_tools") and (module or package)
                if top != name or not module:
                    self.tell.words("@own-code", name, "beside" if beside else "file" if self.path else "here")

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            module, first = self.module(alias.name), alias.name.partition(".")[0]
            self.let(alias.asname or first, module if alias.asname or first == alias.name else Name(canonical(first)))

    def _importfrom(self, node: ast.ImportFrom) -> Any:
        owner = self.module(node.module) if node.module and not node.level else ANYTHING
        for alias in node.names:
            if alias.name != "*":
                self.let(alias.asname or alias.name, self.attribute(owner, alias.name))
            else:
                self.opaque |= acts(owner)

    def module(self, name: str) -> Thing:
        """Return an imported module; a module beside the source is read."""
        self.report_imports(name)
        top, name = name.partition(".")[0], canonical(name)
        if self.late and top not in self.loaded:
            for file in (f"{top}.py", f"{top}/__init__.py"):
                self.tell.words("@loads", self._beside(file))
        elif not self.unsure:
            self.loaded |= {top}
        path = self._beside(f"{name}.py")
        if "." not in name and name not in sys.stdlib_module_names and name not in self.fixed:
            self.fixed[name] = Name(name)
            seen = self.tell.sink.inspect_path(path)
            tree = parse(seen.text) if seen.text is not None and not seen.taint & ~Taint.FED else None
            if tree is not None:
                outer, self.names, self.path = (self.names, self.path), {"__file__": Value(path)}, path
                self.run(tree)
                inner, (self.names, self.path) = self.names, outer
                self.names.update({one if one[0] == "." else f"{name}.{one}": thing for one, thing in inner.items()})
            elif seen.text is not None:
                self.tell.code("python", Value(seen.text, seen.taint), path)
        return Name(name)

    def _beside(self, file: str) -> str:
        return "/".join([*self.path.split("/")[:-1], file])
