"""Decisions about one claim: ``decide(view, policy=…, now=…) -> ClaimPlan``.

Module ``view`` holds the input of a decision, ``rules`` the table of rules that fold into one ``Desired``, and
``decide`` compares the claim with the result. KEP-notes.md has the rules by their names.
"""
