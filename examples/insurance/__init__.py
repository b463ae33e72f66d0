"""The Smiths' insurance: one record from two streams, each with a clock of its own."""
