"""Trajectory v1 is a promise: a file that was written once can be read for ever."""

import json
from pathlib import Path
from typing import get_args

from musaagent.traces.schema import Event, EventBase, event_id
from musaagent.traces.store import read_trajectory

GOLDEN = Path(__file__).with_name("golden_v1.jsonl")


def test_golden_v1_still_loads_and_says_the_same() -> None:
    """Do not regenerate the file to make this pass: a reader of v1 has to read it as it is."""
    trajectory = read_trajectory(GOLDEN)
    assert trajectory.remarks == ()
    for line, event in zip(GOLDEN.read_text().splitlines(), trajectory.events, strict=True):
        stored, read = json.loads(line), json.loads(event.model_dump_json())
        assert stored.items() <= _without_new_defaults(read, stored).items()


def _without_new_defaults(read: object, stored: object) -> dict[str, object]:
    """Fields that came later have defaults; what the file says must come back unchanged."""

    def prune(new: object, old: object) -> object:
        if isinstance(new, dict) and isinstance(old, dict):
            return {key: prune(new[key], old[key]) for key in old}
        if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
            return [prune(a, b) for a, b in zip(new, old, strict=True)]
        return new

    pruned = prune(read, stored)
    assert isinstance(pruned, dict)
    return pruned


def test_golden_has_every_kind_of_event() -> None:
    union = get_args(get_args(Event)[0])
    kinds = {kind.model_fields["kind"].default for kind in union}
    assert {event.kind for event in read_trajectory(GOLDEN).events} == kinds
    assert len(kinds) == len(union)


def test_every_record_names_its_version_and_its_id() -> None:
    for line in GOLDEN.read_text().splitlines():
        record = json.loads(line)
        assert record["schema_version"] == 1
        assert record["event_id"] == event_id(
            record["trajectory_id"], record["turn"], record["kind"], record["attempt"]
        )


def test_kinds_are_what_the_union_knows() -> None:
    assert set(get_args(get_args(Event)[0])) == set(EventBase.__subclasses__())
