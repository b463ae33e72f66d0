"""What a table must be for its event-time compactions to be exact.

Exact means that base files hold the data before the threshold and nothing else. That asks for three things: new rows go to
logs (the BUCKET index finds their group without a base file), every version of a row is kept there, and the same column
decides which version wins and on which side of the threshold it lies.
"""

from __future__ import annotations

from tidelake.config.table_config import EVENT_TIME_FIELD, MergeMode, TableConfig, TableType
from tidelake.config.table_options import EVENT_TIME_EXACT
from tidelake.errors import InvalidError


def refuse_unfit_exact(config: TableConfig) -> None:
    """Refuse an exact table whose compactions could not be exact, with the reason."""
    if not config.is_exact:
        return
    field = config.event_time_field
    reason, value, hint = "", "", ""
    if config.table_type is not TableType.MERGE_ON_READ:
        reason, value = "a copy-on-write table has no logs to leave later events in", config.table_type.value
        hint = "table_type='MERGE_ON_READ'"
    elif field is None:
        reason, hint = "it has no event-time field", f"give event_time_field, or the option {EVENT_TIME_FIELD}"
    elif config.buckets is None:
        reason = "its index puts new rows into base files"
        value = config.properties.get("hoodie.index.type", "SIMPLE")
        hint = "options={'hoodie.index.type': 'BUCKET'}"
    elif config.clocks is not None:
        reason, value = "records of several event times are not split at one of them yet", config.clocks.mode
    elif config.tombstone_seconds:
        reason, value = (
            "it keeps deletes that are before the threshold out of base files",
            str(config.tombstone_seconds),
        )
        hint = "leave tombstone.retention out"
    elif config.merge_mode is not MergeMode.EVENT_TIME:
        reason, value = "it is not the event time that decides which version wins", config.merge_mode.value
        hint = f"ordering_fields={field!r}"
    elif config.ordering_fields != (field,):
        reason = f"it orders versions by {', '.join(config.ordering_fields)} and not by the event-time field {field!r}"
        value, hint = ", ".join(config.ordering_fields), f"ordering_fields={field!r}"
    elif config.partial_update_mode is not None or not config.has_meta_columns:
        reason = "records of some columns only, or without meta columns, cannot be left in logs version by version"
        value = "" if config.partial_update_mode is None else config.partial_update_mode.value
    if reason:
        raise InvalidError(
            f"{EVENT_TIME_EXACT.key}=true is not for this table: {reason}",
            value=value or EVENT_TIME_EXACT.key,
            table=config.name,
            hint=hint or None,
        )
