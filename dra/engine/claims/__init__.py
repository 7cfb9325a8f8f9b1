"""Decisions about one claim: ``decide(view, policy=…, now=…) -> Plan``.

``view`` is what a decision may look at, ``rules`` the table of rules that fold into one ``Desired``, ``decide`` the
comparison of both. The numbers of the rules are those of KEP-notes.md.
"""
