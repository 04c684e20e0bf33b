"""The master: signals, reaping, reconciling the wanted children with the living ones."""

from __future__ import annotations

import logging
import os
import selectors
from collections.abc import Callable, Sequence
from math import inf
from signal import SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2
from time import monotonic
from typing import TYPE_CHECKING

from pinlater_supervisor import descendants, fork, linux, signals
from pinlater_supervisor.child import Child, Place, set_title
from pinlater_supervisor.child_signals import DUMP_SIGNAL
from pinlater_supervisor.drain import Drain, warning_seconds
from pinlater_supervisor.exits import (
    EX_CONFIG,
    EX_OK,
    EX_SOFTWARE,
    EX_UNAVAILABLE,
    ChildExit,
)
from pinlater_supervisor.health import add_health
from pinlater_supervisor.memory import OomCounter
from pinlater_supervisor.pool_state import Crew
from pinlater_supervisor.readiness import Standing
from pinlater_supervisor.reaper import reap
from pinlater_supervisor.watch import Watch

if TYPE_CHECKING:
    from resource import struct_rusage

    from pinlater_supervisor.listener import HttpListener
    from pinlater_supervisor.pool import Pool
    from pinlater_supervisor.process import Process

log = logging.getLogger("pinlater_supervisor")

FORK_RETRY_SECONDS = 1.0
"""After the system had no process to give."""
NOTIFY_MARGIN_SECONDS = 5.0
"""What systemd is asked for on top of the time that draining may take."""


class Supervisor:
    """Keeps pools of forked children running until it is told to stop.

    1. Turns signals into wishes (see README.md for the list).
    2. Reaps children, says why they ended, and calls `on_exit` before their slot is used again.
    3. Starts what is missing and retires what is too much.
    4. Holds children to the limits of their pool.

    It has no threads and runs no code of the children's work. Between events it sleeps.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        *,
        name: str,
        drain_seconds: float = 30.0,
        quick_seconds: float = 2.0,
        on_exit: Callable[[ChildExit], object] | None = None,
        on_reload: Callable[[], object] | None = None,
        on_reopen: Callable[[], object] | None = None,
        on_stop: Callable[[], object] | None = None,
        listener: HttpListener | None = None,
        unready: Callable[[], str] | None = None,
    ) -> None:
        """Describe the processes; nothing starts before `run`.

        Args:
            pools: kinds of children; SIGTTIN and SIGTTOU change the size of the first.
            name: of the program, for process titles and logs.
            drain_seconds: what children have to finish their work after SIGTERM, and when they are
                replaced; after that they are killed with all they started.
            quick_seconds: what the children of one stop order have after SIGINT or SIGQUIT.
            on_exit: called in the master for each child that ended, before its slot is used again.
            on_reload: called in the master on SIGHUP, before the new generation is started.
            on_reopen: called in the master on SIGUSR1, to open its log files anew.
            on_stop: called in the master once, when all begins to stop and before any child is told.
            listener: serves its pages, and /livez and /readyz, from the master's loop.
            unready: called for /readyz when all children are ready; why they are not of use yet, "" if they are.
        """
        if not pools:
            raise ValueError("a supervisor needs at least one pool")
        names = [pool.name for pool in pools]
        if len(set(names)) < len(names):
            raise ValueError(f"two pools share a name: {', '.join(names)}")
        if drain_seconds < 0 or quick_seconds < 0:
            raise ValueError(f"drain_seconds ({drain_seconds}) and quick_seconds ({quick_seconds}) start at 0")
        self.name = name
        self.drain_seconds = drain_seconds
        self.quick_seconds = quick_seconds
        self.on_exit = on_exit
        self.on_reload = on_reload
        self.on_reopen = on_reopen
        self.on_stop = on_stop
        self._crews = [Crew(pool) for pool in pools]
        self._listener = listener
        self._unready = unready
        self._watch = Watch(self._recycle)
        self._drain: Drain | None = None

    def run(self) -> int:
        """Supervise until stopped; the exit code for the program.

        0 after an ordered stop or when all children of pools without restart have finished, 78 if a
        child cannot boot, 69 if one lacks something at the first start.

        Raises:
            ThreadsRunningError: this process has threads already, so it cannot fork safely.
        """
        fork.refuse_threads()
        self._open()
        try:
            while True:
                due = self._turn(monotonic())
                if self._drain is not None and self._drain.is_over:
                    return self._drain.exit_code
                self._sleep_until(due)
        finally:
            self._close()

    def _open(self) -> None:
        set_title(f"{self.name}: master")
        self._signals = signals.SignalQueue()
        self._doorbell, self._doorbell_writer = signals.nonblocking_pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(self._doorbell, selectors.EVENT_READ)
        if self._listener is not None:
            add_health(self._listener, self._why_unready)
            self._listener.attach(self._selector)
        # Children of the program that uses us are its own affair, before and after.
        self._strangers = descendants.children()
        linux.adopt_orphans(True)
        self._standing = Standing(self._crews)
        self._oom = OomCounter()
        self._answers: dict[int, Callable[[], None]] = {
            SIGTERM: self._stop,
            SIGINT: self._stop_quickly,
            SIGQUIT: self._stop_quickly,
            SIGHUP: self._reload,
            SIGTTIN: self._grow,
            SIGTTOU: self._shrink,
            SIGUSR1: self._reopen,
            SIGUSR2: self._dump,
            SIGCHLD: lambda: None,
        }

    def _close(self) -> None:
        # Children of ours are left only after an error in the master itself; orphans may be at any time.
        for process in self._processes():
            process.kill("the master failed")
        descendants.sweep(self._strangers)
        linux.adopt_orphans(False)
        self._signals.close()
        self._let_go()
        os.close(self._doorbell_writer)

    def _let_go(self) -> None:
        self._selector.close()
        if self._listener is not None:
            self._listener.close()
        self._standing.close()
        os.close(self._doorbell)

    def _turn(self, now: float) -> float:
        """Do all there is to do; when the next thing is due, inf if only an event can bring one."""
        for number in self._signals.drain():
            if number in self._answers:
                self._answers[number]()
        self._reap(now)
        self._reconcile(now)
        # Last of those that can begin a stop or end a child: nothing may be left for a turn that no event brings.
        if self._drain is not None:
            self._drain.advance(now)
        due = [self._watch.look(process, now) for process in self._processes()]
        due += [moment for crew in self._kept() for moment in crew.held_until]
        if self._listener is not None:
            due.append(self._listener.look(now))
        if self._drain is None:
            self._standing.look()
        else:
            self._standing.look_at_stop()
        return min(self._standing.beat(now), *due, inf)

    def _sleep_until(self, due: float) -> None:
        timeout = None if due == inf else max(0.0, due - monotonic())
        for key, events in self._selector.select(timeout):
            if key.data is not None:  # else it is only here to wake us
                self._call(key.data, events)
        signals.drain_pipe(self._doorbell)

    def _processes(self) -> list[Process]:
        return [process for crew in self._crews for process in crew.members.values()]

    # Children that ended

    def _reap(self, now: float) -> None:
        crews = {pid: crew for crew in self._crews for pid in crew.members}
        for pid, status, usage in reap(crews):
            if pid in crews:
                self._bury(crews[pid], crews[pid].members[pid], status, usage, now)

    def _bury(self, crew: Crew, process: Process, status: int, usage: struct_rusage, now: float) -> None:
        ended = process.exit(status, usage, oom_has_killed=self._oom.has_grown())
        self._say(ended)
        if self.on_exit is not None:
            self._call(self.on_exit, ended)
        del crew.members[process.pid]
        process.cell.close()
        crew.note_exit(ended, now)
        self._judge(crew, ended)

    def _say(self, ended: ChildExit) -> None:
        level = logging.INFO if ended.is_expected else logging.ERROR
        log.log(level, "%s[%d] pid %d %s", ended.pool, ended.slot, ended.pid, ended.in_words())

    def _judge(self, crew: Crew, ended: ChildExit) -> None:
        """Stop everything when starting again cannot help, or when all the work is done."""
        if self._drain is not None:
            return
        finite = [crew for crew in self._crews if not crew.pool.restart]
        if finite and all(crew.is_finished for crew in finite):
            log.info("all work is done")
            self._begin_stop(EX_OK)
        elif ended.was_ready or ended.stopping:
            return
        elif ended.code == EX_UNAVAILABLE and not self._standing.has_started:
            self._begin_stop(EX_UNAVAILABLE)
        elif ended.code == EX_CONFIG:
            self._cannot_boot(crew, ended)

    def _cannot_boot(self, crew: Crew, ended: ChildExit) -> None:
        if crew.pool.awaits_reload:
            if crew.pause(ended.generation):
                log.error("pool %s cannot boot; it waits for the next reload", crew.pool.name)
        elif not self._standing.has_started or crew.ready_count == 0:
            log.error("pool %s cannot boot; stopping", crew.pool.name)
            self._begin_stop(EX_CONFIG)
            return
        else:
            log.error("new children of pool %s cannot boot; those that run go on", crew.pool.name)
        self._standing.reloaded()

    # Wanted and actual children

    def _reconcile(self, now: float) -> None:
        for crew in self._kept():
            for process in crew.surplus():
                self._retire(process, "replaced" if process.generation < crew.generation else "one less is wanted")
            for _ in range(crew.missing(now)):
                self._start(crew, now)

    def _kept(self) -> list[Crew]:
        """Crews whose dead are replaced."""
        return [crew for crew in self._crews if self._drain is None or self._drain.keeps(crew)]

    def _start(self, crew: Crew, now: float) -> None:
        process = crew.newcomer()
        title = crew.pool.title or f"{self.name}: {crew.pool.name}"
        place = Place(process.pool.name, process.slot, process.generation)
        child = Child(place, process.cell, title, self._doorbell_writer)
        try:
            process.pid = fork.fork(child, crew.pool.run, self._leave_master)
        except (OSError, fork.ThreadsRunningError) as error:
            log.error("cannot start a child of pool %s: %s", crew.pool.name, error)  # noqa: TRY400 - expected, the trace says nothing
            process.cell.close()
            crew.hold_back(now + FORK_RETRY_SECONDS)
            if isinstance(error, fork.ThreadsRunningError) and self._drain is None:
                self._begin_stop(EX_SOFTWARE)
            return
        crew.members[process.pid] = process
        log.info("%s started", process)

    def _leave_master(self) -> None:
        """In a child: close what only the master may use."""
        self._signals.close_pipe()
        self._let_go()
        for process in self._processes():
            process.cell.close()

    def _recycle(self, process: Process, reason: str) -> None:
        seconds = process.pool.recycle_seconds
        process.keeps_place = seconds is not None
        self._retire(process, reason, self.drain_seconds if seconds is None else seconds)

    def _retire(self, process: Process, reason: str, seconds: float | None = None) -> None:
        seconds = self.drain_seconds if seconds is None else seconds
        log.info("%s: asked to stop: %s", process, reason)
        process.ask_to_stop(reason, deadline=monotonic() + seconds, warning_seconds=warning_seconds(seconds))

    # Answers to signals

    def _stop(self) -> None:
        if self._drain is None:
            log.info("stopping: children may finish their work within %g s", self.drain_seconds)
            self._begin_stop(EX_OK)
        else:
            self._stop_quickly()

    def _stop_quickly(self) -> None:
        if self._drain is None:
            self._begin_stop(EX_OK)
        assert self._drain is not None
        if self._drain.is_quick:
            self._drain.cut_off()
        else:
            log.info("stopping quickly")
            self._drain.hurry(monotonic())

    def _begin_stop(self, exit_code: int) -> None:
        if self.on_stop is not None:
            self._call(self.on_stop)
        self._drain = Drain(
            self._crews,
            exit_code=exit_code,
            deadline=monotonic() + self.drain_seconds,
            seconds=self.drain_seconds,
            quick_seconds=self.quick_seconds,
        )
        self._standing.stopping(self.drain_seconds + NOTIFY_MARGIN_SECONDS)

    def _reload(self) -> None:
        if self._drain is not None:
            return
        log.info("reloading: starting a new generation")
        self._standing.reloading()
        if self.on_reload is not None:
            self._call(self.on_reload)
        for crew in self._crews:
            crew.renew()

    def _grow(self) -> None:
        self._resize(+1)

    def _shrink(self) -> None:
        self._resize(-1)

    def _resize(self, step: int) -> None:
        crew = self._crews[0]
        crew.size = max(1, crew.size + step)
        if crew.pool.most is not None and crew.size > crew.pool.most:
            crew.size = crew.pool.most
            log.warning("pool %s takes no more than %d children", crew.pool.name, crew.size)
            return
        log.info("pool %s: %d children wanted", crew.pool.name, crew.size)

    def _reopen(self) -> None:
        if self.on_reopen is not None:
            self._call(self.on_reopen)
        for process in self._processes():
            process.signal(SIGUSR1)

    def _dump(self) -> None:
        for process in self._processes():
            log.info("%s: %s; its stacks follow on stderr", process, process.cell.status or "no status")
            process.signal(DUMP_SIGNAL)

    def _call(self, hook: Callable[..., object], *arguments: object) -> None:
        """A hook that fails is its own problem, never the children's."""
        try:
            hook(*arguments)
        except Exception:
            log.exception("the hook %r failed", hook)

    def _why_unready(self) -> str:
        if self._drain is not None:
            return "stopping"
        reasons = [reason for crew in self._crews if (reason := crew.why_unready)]
        return reasons[0] if reasons else self._unready() if self._unready is not None else ""
