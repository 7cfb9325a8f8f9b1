"""Why things are as they are, for people: the rules that decide are asked, nothing is decided here a second time.

A `Snapshot` is what an API server says at one moment; a `Scene` puts it into the `World` that the controller uses.
`holds` finds what keeps an allocation by taking causes away, one after the other, and asking the rules what they would
do then. `claims`, `pods` and `devices` make facts of that: enums and numbers, no sentences.

What only a controller knows, since it has watched for a while (who was listed when, what came back), is not here; where
that could matter, the facts say so (`Hold.TIME`).
"""
