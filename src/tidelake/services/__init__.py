"""Table services: compaction, clustering and clean, planned for what changed; savepoint and restore.

A plan is data, made from the timeline and the file slices and published there; its execution is the effect. What runs on
a worker is a plain function on Arrow data, so that both engines share it.
"""
