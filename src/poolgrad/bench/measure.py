"""Interleaved rounds, best of many, repeated until the best is stable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .processes import settle


@dataclass(frozen=True)
class Effort:
    """How long to measure one case."""

    burst: float = 0.03  # seconds a participant gets in a round
    least: int = 4  # rounds
    most: int = 20
    seconds: float = 12.0  # of a case, after which it is reported as it stands
    agree: float = 1.05  # stable: the best three rounds are within this factor
    slow: float = 0.5  # a call this long is measured twice and no more


QUICK = Effort(burst=0.01, least=3, most=6, seconds=1.5)


@dataclass
class Timing:
    """The rounds of one participant."""

    rounds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.rounds)

    def stable(self, effort: Effort) -> bool:
        """Whether its best was reached more than once: three rounds, or two of a slow call, agree."""
        fastest = sorted(self.rounds)
        needed = 2 if fastest[0] >= effort.slow else 3
        return len(fastest) >= needed and fastest[needed - 1] <= effort.agree * fastest[0]


def measure(participants: Mapping[str, Callable[[float], float]], effort: Effort) -> dict[str, Timing]:
    """Time every participant (a function of the seconds it may take, giving its best time of a call).

    All take part in every round, each time beginning with another, so that a disturbance meets all of them alike; a
    participant whose single call is slow leaves after its second round.
    """
    timings = {name: Timing() for name in participants}
    names = list(participants)
    begin = time.monotonic()
    for number in range(effort.most):
        turn = number % len(names) if names else 0
        for name in names[turn:] + names[:turn]:
            timing = timings[name]
            if len(timing.rounds) >= 2 and timing.best >= effort.slow:
                continue
            settle()
            timing.rounds.append(participants[name](effort.burst))
        enough = number + 1 >= effort.least
        if enough and all(timing.stable(effort) for timing in timings.values()):
            break
        if time.monotonic() - begin > effort.seconds and number >= 1:
            break
    return timings
