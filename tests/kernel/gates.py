"""Places where a run can be held: the first who comes to a closed gate waits there until it is opened."""

import threading
from dataclasses import dataclass, field


@dataclass
class Gate:
    """Holds the first comer only, so that what is tried again elsewhere goes through."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)


class Gates:
    """Gates by name; a name that was never closed is no gate. Used from the threads of servers."""

    def __init__(self) -> None:
        self._gates: dict[str, Gate] = {}
        self._lock = threading.Lock()

    def close(self, name: str) -> None:
        """From now on the first that comes to `name` is held."""
        self._gates[name] = Gate()

    def reached(self, name: str) -> bool:
        return self._gates[name].reached.is_set()

    def open(self, name: str) -> None:
        if name in self._gates:
            self._gates[name].opened.set()

    def open_all(self) -> None:
        for name in self._gates:
            self.open(name)

    def pass_through(self, name: str) -> bool:
        """Wait at a closed gate; return whether this caller was the one that was held."""
        gate = self._gates.get(name)
        if gate is None:
            return False
        with self._lock:
            first = not gate.reached.is_set()
            gate.reached.set()
        if first:
            gate.opened.wait()
        return first
