"""Loads modules, and finds the job classes, middleware and hooks in them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pinlater.errors import CallError, ConfigError
from pinlater.jobs.body_codec import JobCodec
from pinlater.jobs.job import Job, RawJob, is_concrete
from pinlater.jobs.middleware import Middleware

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class ModulesInvalid(ConfigError):
    """Modules cannot be loaded; ``problems`` has one line per reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


def load_job_classes(names: Sequence[str]) -> list[type[Job]]:
    """Import modules, packages with all their modules, and ``.py`` files; return the job classes they define.

    Args:
        names: dotted names, which are also looked up in the current directory, or paths of files.

    Raises:
        ModulesInvalid: some cannot be imported (it lists all of them), or there is no job class.
    """
    _add_current_folder()
    problems: list[str] = []
    loaded = [module for name in names for module in _load(name, problems)]
    if problems:
        raise ModulesInvalid(list(dict.fromkeys(problems)))
    own = {module.__name__ for module in loaded}
    kinds = list(dict.fromkeys(kind for module in loaded for kind in _kinds_in(module, own)))
    if not kinds:
        raise ModulesInvalid([_nothing_in(names, loaded)])
    return kinds


def _nothing_in(names: Sequence[str], loaded: Iterable[ModuleType]) -> str:
    """Return a message that no job class was found, with a likely reason."""
    here = {module.__name__ for module in loaded}
    bare = [
        kind.__name__
        for module in loaded
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Job) and kind.__module__ in here
    ]
    if bare:
        return f"no job class in {', '.join(names)} can be run: define run(self, context) in {', '.join(bare)}"
    hints = [hint for module in loaded if (hint := _shadowing_module(module) or _importing_module(module))]
    return f"no job class in {', '.join(names)}; {hints[0] if hints else 'define one: class SendMail(Job): ...'}"


def _importing_module(module: ModuleType) -> str:
    """Return a hint if a module does not define job classes, but imports some; otherwise empty."""
    imported = {kind.__name__: kind.__module__ for kind in vars(module).values() if is_concrete(kind)}
    if not imported:
        return ""
    homes = " ".join(dict.fromkeys(imported.values()))
    return f"{module.__name__} only imports {', '.join(imported)}: name the modules that define them: {homes}"


def _shadowing_module(module: ModuleType) -> str:
    """Return a hint if another module hides the file of its name in the current folder; otherwise empty."""
    own = Path.cwd() / f"{module.__name__}.py"
    found = getattr(module, "__file__", None)
    if not own.is_file() or found == str(own):
        return ""
    return f"Python has a module {module.__name__} of its own ({found or 'built in'}); give {own} another name"


def make_codec(kinds: Sequence[type[Job]], queues: Sequence[str]) -> JobCodec:
    """Create the codec of some job classes.

    Any queue may hold jobs of a typed class, since ``enqueue(job, queue=…)`` and ``pinlater move-jobs`` put them there.

    Raises:
        ConfigError: two classes share a name, or one of ``queues`` belongs to no class and all classes are raw, so
            that no job of it could be decoded.
    """
    codec = JobCodec(kinds)
    unknown = unnamed_queues(codec, queues)
    if unknown and all(issubclass(kind, RawJob) for kind in kinds):
        raise ConfigError(
            f"no job class has the queue {', '.join(map(repr, unknown))}; there are {', '.join(codec.queues)}"
        )
    return codec


def unnamed_queues(codec: JobCodec, queues: Iterable[str]) -> list[str]:
    """Return the queues that no class names as its queue."""
    return [queue for queue in queues if queue not in codec.queues]


def refuse_blocking(kinds: Iterable[type[Job]], queues: Container[str]) -> None:
    """Reject classes with a blocking ``run`` in the queues of a worker with ``--concurrency``.

    Raises:
        ConfigError: names the classes.
    """
    options = (kind.job_options for kind in kinds if not inspect.iscoroutinefunction(kind.run))
    plain = [f"{found.name} (queue {found.queue})" for found in options if found.queue in queues]
    if plain:
        raise ConfigError(
            f"with --concurrency all jobs share one thread, which a blocking run would stop: {', '.join(plain)}; "
            "write async def run, use --threads instead, or start another worker for those queues (--queue)"
        )


def load_middleware(names: Sequence[str]) -> list[Middleware]:
    """Import middleware by names such as ``my_project.surroundings:in_transaction``.

    Raises:
        ModulesInvalid: some cannot be loaded; it lists all of them.
    """
    what = "a callable that takes a job and its context and returns a context manager, such as with @contextmanager"
    return _load_named("--middleware", names, what)


def load_hooks(option: str, names: Sequence[str]) -> list[Callable[[], object]]:
    """Import the functions that ``option`` names, such as ``my_project.process:open_pool``.

    Raises:
        ModulesInvalid: some cannot be loaded; it lists all of them.
    """
    return _load_named(option, names, "a plain function without arguments")


def _load_named(option: str, names: Sequence[str], what: str) -> list[Any]:
    _add_current_folder()
    problems: list[str] = []
    found = [each for name in names if (each := _named(option, name, what, problems)) is not None]
    if problems:
        raise ModulesInvalid(problems)
    return found


def _add_current_folder() -> None:
    try:
        folder = os.getcwd()  # noqa: PTH109 - the entry is a string
    except FileNotFoundError:
        problem = "the current directory was deleted, so modules cannot be found; start this program in another one"
        raise ModulesInvalid([problem]) from None
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _named(option: str, text: str, what: str, problems: list[str]) -> Callable[..., object] | None:
    """Return the callable that ``MODULE:NAME`` names; otherwise add to ``problems``."""
    place, _, name = text.rpartition(":")
    if not (place and name.isidentifier()):
        problems.append(f"{option} {text}: write MODULE:NAME, such as my_project.surroundings:in_transaction")
        return None
    module = _import(place, problems)
    if module is None:
        return None
    value: Any = getattr(module, name, None)
    if value is None:
        problems.append(f"{option} {text}: {place} has no {name}; check its spelling")
    elif kind := _kind_of_wrong(value):
        problems.append(f"{option} {text}: {name} is {kind}; it must be {what}")
    else:
        found: Callable[..., object] = value
        return found
    return None


def _kind_of_wrong(value: object) -> str:
    """Return what a value is that is no function for middleware or a hook; empty if it may be one.

    A call of a coroutine or generator function would run nothing, and fail every job, or nobody would notice.
    """
    if isinstance(value, type) and issubclass(value, Job):
        return "a job class"
    if inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value):
        return "async def"
    if inspect.isgeneratorfunction(value):
        return "a generator function"
    return "" if callable(value) else f"of type {type(value).__name__}"


def _load(name: str, problems: list[str]) -> Iterator[ModuleType]:
    module = _import(name, problems)
    if module is not None:
        yield from _with_contents(module, problems)


def _with_contents(module: ModuleType, problems: list[str]) -> Iterator[ModuleType]:
    """Yield a module, and all that is in it if it is a package."""
    yield module
    for found in pkgutil.iter_modules(getattr(module, "__path__", []), module.__name__ + "."):
        if found.name.endswith(".__main__"):  # a program: importing it would run it
            continue
        # Its name may be one that nobody would give: a migration of Django is a module 0001_initial.
        if (inner := _attempt(importlib.import_module, found.name, problems)) is not None:
            yield from _with_contents(inner, problems)


def _import(name: str, problems: list[str]) -> ModuleType | None:
    return _attempt(_import_given, name, problems)


def _attempt(load: Callable[[str], ModuleType], name: str, problems: list[str]) -> ModuleType | None:
    try:
        return load(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, SystemExit included
        problems.append(_problem(name, error))
        return None


def _import_given(name: str) -> ModuleType:
    if name.endswith(".py"):
        return _import_file(Path(name))
    if not all(part.isidentifier() for part in name.split(".")):
        raise ImportError("not a module name; write one such as my_project.jobs, or the path of a .py file")
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError("no such file")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path.resolve()):
        return loaded
    if loaded is not None:
        raise ImportError(f"a module {path.stem} is loaded already; rename the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _problem(name: str, error: BaseException) -> str:
    """Return one line: where, what, and a hint if there is one."""
    text = " ".join(str(error).split())
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
        text = str(error.msg)
    else:
        place = _place(error)
    said = f"cannot load {name}: {place + ': ' if place else ''}{type(error).__name__}: {text}"
    if isinstance(error, SystemExit | CallError):
        return f"{said}; it does its work when it is imported: put that under if __name__ == '__main__':"
    if name.endswith(".py") and "no known parent package" in text:
        return f"{said}; name the module, such as {'.'.join(Path(name).with_suffix('').parts[-2:])}, not its file"
    is_absent = isinstance(error, ModuleNotFoundError) and error.name == name
    return said + _advice(name) if is_absent else said


def _advice(name: str) -> str:
    """Return a hint for the name of a missing module."""
    parent, _, last = name.rpartition(".")
    if isinstance(getattr(sys.modules.get(parent), last, None), type):
        return f"; name the module alone: {parent}"
    here = Path.cwd()
    near = difflib.get_close_matches(name, [path.stem for path in here.glob("*.py")])
    return f"; did you mean {' or '.join(near)}?" if near else f"; it is neither in {here} nor installed"


def _place(error: BaseException) -> str:
    """Return file and line of the innermost call outside this package and the machinery of imports."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_PACKAGE, importlib.__file__, "<"))  # "<": code that has no file
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _kinds_in(module: ModuleType, own: set[str]) -> Iterator[type[Job]]:
    """Yield the job classes of a module: those it defines, and those in its ``__all__``.

    Other imported classes are left out: a job may enqueue jobs that other workers are to run.
    """
    offered = getattr(module, "__all__", ())
    for name, value in vars(module).items():
        if is_concrete(value) and (value.__module__ in own or name in offered):
            yield value
