"""The master process: handles signals, reaps children, keeps each pool at its size."""

from __future__ import annotations

import gc
import logging
import os
import selectors
from collections.abc import Callable, Sequence
from math import inf
from signal import SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2
from time import monotonic
from typing import TYPE_CHECKING

from pinlater_supervisor import descendants, fork, linux, signals
from pinlater_supervisor.child import Child, ChildPosition, set_title
from pinlater_supervisor.drain import Drain, warning_seconds
from pinlater_supervisor.exits import (
    EX_CONFIG,
    EX_OK,
    EX_SOFTWARE,
    EX_UNAVAILABLE,
    ChildExit,
)
from pinlater_supervisor.listener import HttpListener, Unavailable
from pinlater_supervisor.memory import OomCounter
from pinlater_supervisor.notify import Notifier
from pinlater_supervisor.pool_state import PoolState
from pinlater_supervisor.readiness import Readiness
from pinlater_supervisor.reaper import reap
from pinlater_supervisor.stack_dumps import StackDumps
from pinlater_supervisor.watch import LimitWatch

if TYPE_CHECKING:
    from resource import struct_rusage

    from pinlater_supervisor.pool import Pool
    from pinlater_supervisor.process import ChildProcess

log = logging.getLogger("pinlater_supervisor")

FORK_RETRY_SECONDS = 1.0
"""Pause after the system could not create a process."""
NOTIFY_MARGIN_SECONDS = 5.0
"""Time requested from systemd on top of the drain time."""
LONGEST_SLEEP_SECONDS = 86400.0
"""The selector refuses to wait for more than 24 days; a child may be due in years."""


class Supervisor:
    """Keeps pools of forked children running until it is told to stop.

    1. Acts on signals (see README.md for the list).
    2. Reaps children, logs why they ended, and calls `on_exit` before their slot is reused.
    3. Starts missing children and stops surplus ones.
    4. Enforces the limits of each pool on its children.

    It has no threads and runs none of the children's code. Between events it sleeps.
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
        """Configure the supervisor; nothing starts before `run`.

        Args:
            pools: pools of children; SIGTTIN and SIGTTOU change the size of the first.
            name: name of the program, for process titles and logs.
            drain_seconds: time for children to finish their work after SIGTERM, and when they are
                replaced; after that they are killed with all they started.
            quick_seconds: time for the children of each stop order after SIGINT or SIGQUIT; after SIGTERM, the minimum
                for each stop order but the first, since the earlier ones may have used up `drain_seconds`.
            on_exit: called in the master for each child that ended, before its slot is reused.
            on_reload: called in the master on SIGHUP, before the new generation is started.
            on_reopen: called in the master on SIGUSR1, to reopen its log files.
            on_stop: called in the master once, when the stop begins and before any child is asked to stop.
            listener: HTTP listener that serves its pages, and /livez and /readyz, from the master's loop.
            unready: called for /readyz when all children are ready; returns why the program is not ready yet, or "".
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
        self._states = [PoolState(pool) for pool in pools]
        self._listener = listener
        self._unready = unready
        self._watch = LimitWatch(self._recycle)
        self._dumps = StackDumps()
        self._drain: Drain | None = None

    def run(self) -> int:
        """Supervise until stopped; return the exit code for the program.

        0 after an ordered stop or when all children of pools without restart have finished, 78 if a child
        cannot boot at the first start, 69 if one lacks something then, 70 if threads make a later fork unsafe.

        Raises:
            ThreadsRunningError: this process has threads already, so it cannot fork safely.
        """
        fork.refuse_threads()
        # What the program has allocated so far lives until it ends, in the children, too. Searching it for garbage, as
        # the interpreter does at exit, takes longer than everything else that the master does.
        gc.freeze()
        self._open()
        expected = inf
        try:
            while True:
                now = monotonic()
                self._watch.record_pass(expected, now)
                due = self._run_once(now)
                if self._drain is not None and self._drain.is_over:
                    return self._drain.exit_code
                self._sleep_until(due)
                expected = max(due, now)
        finally:
            self._close()

    def _open(self) -> None:
        set_title(f"{self.name}: master")
        self._signals = signals.SignalQueue()
        self._wakeup, self._wakeup_writer = signals.nonblocking_pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        if self._listener is not None:
            # Trouble with children or servers is no reason to restart the master.
            self._listener.route("/livez", lambda: b"ok\n")
            self._listener.route("/readyz", self._readyz)
            self._listener.attach(self._selector)
        # Children that the program had before are left alone.
        self._foreign_children = descendants.children()
        linux.adopt_orphans(True)
        self._notifier = Notifier()
        self._readiness = Readiness(self._states, self._notifier)
        self._oom = OomCounter()
        self._signal_actions: dict[int, Callable[[], None]] = {
            SIGTERM: self._stop,
            SIGINT: self._stop_quickly,
            SIGQUIT: self._stop_quickly,
            SIGHUP: self._reload,
            SIGTTIN: lambda: self._resize(+1),
            SIGTTOU: lambda: self._resize(-1),
            SIGUSR1: self._reopen,
            SIGUSR2: lambda: self._dumps.request(self._processes()),
            SIGCHLD: lambda: None,
        }

    def _close(self) -> None:
        # Children remain only after an error in the master itself; orphans may remain at any time.
        for process in self._processes():
            process.kill("the master failed")
        descendants.kill_orphans(self._foreign_children)
        linux.adopt_orphans(False)
        self._signals.close()
        self._close_descriptors()
        os.close(self._wakeup_writer)

    def _close_descriptors(self) -> None:
        self._selector.close()
        if self._listener is not None:
            self._listener.close()
        self._notifier.close()
        os.close(self._wakeup)

    def _run_once(self, now: float) -> float:
        """Do everything that is due; return when the next thing is due, inf if that takes an event."""
        for number in self._signals.drain():
            if number in self._signal_actions:
                self._signal_actions[number]()
        self._reap()
        self._reconcile(now)
        # After everything that can begin a stop or end a child: no event would trigger another pass for it.
        if self._drain is not None:
            self._drain.advance(now)
        processes = self._processes()
        due = [self._watch.check(process, now) for process in processes]
        due.append(self._dumps.advance(processes, now))
        due += [moment for state in self._restarted_pools() for moment in state.delayed_until]
        if self._listener is not None:
            due.append(self._listener.look(now))
        if self._drain is None:
            self._readiness.update()
        else:
            self._notifier.status(f"stopping, {len(processes)} children left")
        return min(self._notifier.beat(now), *due, inf)

    def _sleep_until(self, due: float) -> None:
        timeout = None if due == inf else min(max(0.0, due - monotonic()), LONGEST_SLEEP_SECONDS)
        for key, events in self._selector.select(timeout):
            if key.data is not None:  # else it only wakes the loop
                self._call(key.data, events)
        signals.drain_pipe(self._wakeup)

    def _processes(self) -> list[ChildProcess]:
        return [process for state in self._states for process in state.children.values()]

    # Children that ended

    def _reap(self) -> None:
        states = {pid: state for state in self._states for pid in state.children}
        for pid, status, usage in reap(states):
            if pid in states:
                self._record_exit(states[pid], states[pid].children[pid], status, usage)

    def _record_exit(self, state: PoolState, process: ChildProcess, status: int, usage: struct_rusage) -> None:
        ended = process.describe_exit(status, usage, oom_has_killed=self._oom.has_grown())
        if self._drain is None:
            self._readiness.record_start()  # the child may have been ready and have ended since the last pass
        self._log_exit(ended)
        if self.on_exit is not None:
            self._call(self.on_exit, ended)
        del state.children[process.pid]
        process.page.close()
        # With an earlier time, a slow hook or a busy machine would use up the delay of a crash loop.
        state.record_exit(ended, monotonic())
        self._decide_after_exit(state, ended)

    def _log_exit(self, ended: ChildExit) -> None:
        level = logging.INFO if ended.is_expected else logging.ERROR
        log.log(level, "%s[%d] pid %d %s", ended.pool, ended.slot, ended.pid, ended.in_words())

    def _decide_after_exit(self, state: PoolState, ended: ChildExit) -> None:
        """Stop everything if restarting cannot help, or if all work is done."""
        if self._drain is not None:
            return
        finite = [state for state in self._states if not state.pool.restart]
        if finite and all(state.is_finished for state in finite):
            log.info("all work is done")
            self._begin_stop(EX_OK)
        elif ended.was_ready or ended.stopping:
            return
        elif ended.code == EX_UNAVAILABLE and not self._readiness.has_started:
            self._begin_stop(EX_UNAVAILABLE)
        elif ended.code == EX_CONFIG:
            self._cannot_boot(state, ended)

    def _cannot_boot(self, state: PoolState, ended: ChildExit) -> None:
        if state.pool.awaits_reload:
            if state.pause(ended.generation):
                log.error("pool %s cannot boot; waiting for the next reload", state.pool.name)
        elif not self._readiness.has_started or (state.ready_count == 0 and not state.pool.restart):
            log.error("pool %s cannot boot; stopping", state.pool.name)
            self._begin_stop(EX_CONFIG)
            return
        elif state.ready_count == 0:  # its code or files may be about to be replaced
            log.error("no child of pool %s can boot; trying again", state.pool.name)
        else:
            log.error("new children of pool %s cannot boot; the running ones continue", state.pool.name)
        self._readiness.reloaded()

    # Wanted and actual children

    def _reconcile(self, now: float) -> None:
        for state in self._restarted_pools():
            for process in state.surplus():
                self._stop_child(process, "replaced" if process.generation < state.generation else "surplus")
            for _ in range(state.missing_count(now)):
                self._start(state)

    def _restarted_pools(self) -> list[PoolState]:
        """Return the pools whose dead children are replaced."""
        return [state for state in self._states if self._drain is None or self._drain.restarts(state)]

    def _start(self, state: PoolState) -> None:
        title = state.pool.title or f"{self.name}: {state.pool.name}"
        try:
            process = state.new_child()
            position = ChildPosition(process.pool.name, process.slot, process.generation)
            child = Child(position, process.page, title, self._wakeup_writer)
            process.pid = fork.fork(child, state.pool.run, self._leave_master)
        except (OSError, fork.ThreadsRunningError) as error:  # a page that was made is freed with its last reference
            log.error("cannot start a child of pool %s: %s", state.pool.name, error)  # noqa: TRY400 - expected, the trace says nothing
            state.delay_start(monotonic() + FORK_RETRY_SECONDS)
            if isinstance(error, fork.ThreadsRunningError) and self._drain is None:
                self._begin_stop(EX_SOFTWARE)
            return
        state.children[process.pid] = process
        log.info("%s started", process)

    def _leave_master(self) -> None:
        """Close, in a child, what only the master may use."""
        self._signals.close_pipe()
        self._close_descriptors()
        for process in self._processes():
            process.page.close()

    def _recycle(self, process: ChildProcess, reason: str) -> None:
        seconds = process.pool.recycle_seconds
        process.keeps_slot = seconds is not None
        self._stop_child(process, reason, self.drain_seconds if seconds is None else seconds)

    def _stop_child(self, process: ChildProcess, reason: str, seconds: float | None = None) -> None:
        seconds = self.drain_seconds if seconds is None else seconds
        log.info("%s: asked to stop: %s", process, reason)
        process.ask_to_stop(reason, deadline=monotonic() + seconds, warning_seconds=warning_seconds(seconds))

    # Signal actions

    def _stop(self) -> None:
        if self._drain is None:
            log.info("stopping: children have %g s to finish their work", self.drain_seconds)
            self._begin_stop(EX_OK)
        else:
            self._stop_quickly()

    def _stop_quickly(self) -> None:
        if self._drain is None:
            self._begin_stop(EX_OK)
        assert self._drain is not None
        if self._drain.is_quick:
            self._drain.kill_stage()
        else:
            log.info("stopping quickly")
            self._drain.stop_now(monotonic())

    def _begin_stop(self, exit_code: int) -> None:
        if self.on_stop is not None:
            self._call(self.on_stop)
        self._drain = Drain(
            self._states,
            exit_code=exit_code,
            deadline=monotonic() + self.drain_seconds,
            seconds=self.drain_seconds,
            quick_seconds=self.quick_seconds,
        )
        self._notifier.stopping(self.drain_seconds + NOTIFY_MARGIN_SECONDS)

    def _reload(self) -> None:
        if self._drain is not None:
            return
        log.info("reloading: starting a new generation")
        self._readiness.reloading()
        if self.on_reload is not None:
            self._call(self.on_reload)
        for state in self._states:
            state.start_generation()

    def _resize(self, step: int) -> None:
        state = self._states[0]
        state.size = max(1, state.size + step)
        if state.pool.most is not None and state.size > state.pool.most:
            state.size = state.pool.most
            log.warning("pool %s is limited to %d children", state.pool.name, state.size)
            return
        log.info("pool %s: %d children wanted", state.pool.name, state.size)

    def _reopen(self) -> None:
        if self.on_reopen is not None:
            self._call(self.on_reopen)
        for process in self._processes():
            process.signal(SIGUSR1)

    def _call(self, hook: Callable[..., object], *arguments: object) -> None:
        """Call a hook; log its exception, which must not affect the children."""
        try:
            hook(*arguments)
        except Exception:
            log.exception("hook %r failed", hook)

    def _readyz(self) -> bytes:
        if reason := self._unready_reason():
            raise Unavailable(reason)
        return b"ok\n"

    def _unready_reason(self) -> str:
        if self._drain is not None:
            return "stopping"
        reasons = [reason for state in self._states if (reason := state.unready_reason)]
        return reasons[0] if reasons else self._unready() if self._unready is not None else ""
