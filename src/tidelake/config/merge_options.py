"""Options of a table whose records have several event times, under the names of the proposal that asked for them."""

from __future__ import annotations

from tidelake.config.options import Option, choice, duration_ms, optional_text, true_or_false, words

_PREFIX = "hoodie.eventime.latest.verification."
DAY_SECONDS = 86_400


def _seconds(text: str) -> int:
    return -(-duration_ms(text) // 1000)


CLOCKS_ENABLED: Option[bool] = Option(
    "multiple.eventime.latest.verification.enable",
    "table",
    False,
    "Whether a record has several event times, of which each is verified.",
    true_or_false,
)
CLOCK_FIELDS: Option[tuple[str, ...]] = Option(
    _PREFIX + "fields", "table", (), "The event-time columns; a single one is plain event-time ordering.", words
)
CLOCK_MODE: Option[str] = Option(
    _PREFIX + "mode",
    "table",
    "all",
    "all: a record is applied if every event time is same or newer; per_group: each group of columns follows its own "
    "event time; custom: a merger that the process registered.",
    choice(all="all", per_group="per_group", custom="custom"),
)
MERGER: Option[str | None] = Option(
    _PREFIX + "merger", "table", None, "The name of the merger of mode custom (tl.register_merger).", optional_text
)
UNTIMED: Option[str] = Option(
    _PREFIX + "untimed",
    "table",
    "reject",
    "What becomes of a record without any event time: reject (counted in the commit) or accept.",
    choice(reject="reject", accept="accept"),
)
DEFAULTS: Option[str] = Option(
    _PREFIX + "defaults",
    "table",
    "keep",
    "In mode all, whether a value equal to its column's default (fields.<column>.default-value) leaves the stored one "
    "(keep) or is a value as any other (overwrite).",
    choice(keep="keep", overwrite="overwrite"),
)
REJECTS_PATH: Option[str | None] = Option(
    _PREFIX + "rejects.path",
    "table",
    None,
    "A folder for the records that lost, with the reason and both vectors of event times; none by default.",
    optional_text,
)
RESOLVE: Option[str] = Option(
    "write.resolve",
    "table",
    "merge",
    "Where a merge-on-read table in a mode that others do not know merges: when it is read (merge), or when it is written "
    "(eager), so that any reader is right.",
    choice(merge="merge", eager="eager"),
)
TOMBSTONE_RETENTION: Option[int | None] = Option(
    "tombstone.retention",
    "table",
    None,
    "How long compaction keeps deletes, so that older records which come late stay hidden (7d, 12h, 0).",
    _seconds,
)
MERGE_OPTIONS: tuple[
    Option[bool] | Option[tuple[str, ...]] | Option[str] | Option[str | None] | Option[int | None], ...
] = (
    CLOCKS_ENABLED,
    CLOCK_FIELDS,
    CLOCK_MODE,
    MERGER,
    UNTIMED,
    DEFAULTS,
    REJECTS_PATH,
    RESOLVE,
    TOMBSTONE_RETENTION,
)
GROUP_PREFIX, GROUP_SUFFIX, DEFAULT_SUFFIX = "fields.", ".sequence-group", ".default-value"
"""``fields.<event time>.sequence-group`` and ``fields.<column>.default-value``."""
PAYLOAD_KEYS = ("hoodie.datasource.write.payload.class", "hoodie.compaction.payload.class", "payload.class")
PAYLOADS_OF_ALL = ("VerifyMultipleLatestEventTimesPayload", "PickAndCombineMultipleFieldsPayload")
"""The class names of the proposal: other names of mode all."""
