"""A function of a program or notebook as a separate program, for a process that has not made it:
its source, the source of its names in the same module, and the values of other names."""

from __future__ import annotations

import inspect
import pickle
import sys
import textwrap
import types

from ._runs import CannotRun, Program


def program_of(function, arguments: tuple, named: dict) -> Program:
    """Raises CannotRun, in words, where the function cannot be run elsewhere."""
    if not inspect.isfunction(function):
        raise CannotRun(f"{function!r} is no function that def has made")
    made = _Source()
    made.add(function.__name__, function)
    given = made.pickled("its arguments", (arguments, named))
    # Imports stand at the top: the process that runs it several times makes them once.
    lines = [
        "# of libmend.fit()",  # by which _server.py knows that nobody wrote these lines
        *made.imports,
        "import pickle, sys",
        f"sys.path[:] = {sys.path!r}",
        *made.parts,
        f"arguments, named = pickle.loads({given!r})",
        f"{function.__name__}(*arguments, **named)",
    ]
    name = f"{function.__name__}()"
    return Program([sys.executable], ["-c", "\n".join(lines)], [], name)


class _Source:
    def __init__(self) -> None:
        self.imports: list[str] = []
        self.parts: list[str] = []
        self.seen: set[str] = set()

    @staticmethod
    def pickled(what: str, value: object) -> bytes:
        try:
            return pickle.dumps(value)
        except Exception as error:
            raise CannotRun(f"{what} cannot be sent to another process: {error}") from None

    def add(self, name: str, value: object) -> None:
        """The meaning of `name`, after the names that it needs."""
        if name in self.seen:
            return
        self.seen.add(name)
        if isinstance(value, types.ModuleType):
            self.imports.append(f"import {value.__name__} as {name}")
        elif not isinstance(value, (types.FunctionType, type)):
            given = self.pickled(name, value)
            self.parts.append(f"import pickle; {name} = pickle.loads({given!r})")
        elif self.is_importable(value):
            self.imports.append(f"from {value.__module__} import {value.__qualname__} as {name}")
        else:
            self.add_source(name, value)

    @staticmethod
    def is_importable(value) -> bool:
        """From an installed package: a file beside the program may run more than its functions."""
        file = getattr(sys.modules.get(value.__module__), "__file__", None) or ""
        return "<locals>" not in value.__qualname__ and "-packages" in file

    def add_source(self, name: str, value) -> None:
        try:
            lines, first = inspect.getsourcelines(value)
            file = inspect.getsourcefile(value)
        except (OSError, TypeError):
            raise CannotRun(f"the source of {name} is not to be found") from None
        if inspect.isfunction(value) and value.__code__.co_freevars:
            used = dict(zip(value.__code__.co_freevars, value.__closure__ or ()))
            for one, cell in used.items():
                self.add(one, cell.cell_contents)
        module = sys.modules[value.__module__].__dict__
        for one in sorted(_names(compile(textwrap.dedent("".join(lines)), file, "exec"))):
            if one in module and one != name:
                self.add(one, module[one])
        # At its own lines of its own file, which the answer names.
        source = "\n" * (first - 1) + textwrap.dedent("".join(lines))
        self.parts.append(f"exec(compile({source!r}, {file!r}, 'exec'), globals())")


def _names(code: types.CodeType) -> set[str]:
    """The names that it, or code in it, looks up outside of itself."""
    found = {*code.co_names, *code.co_freevars}
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found |= _names(one)
    return found
