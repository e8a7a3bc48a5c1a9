"""The audit: what the evidence of an attempt holds, asked by checks that prove each time that they would find it.

    an attempt's files ──collect──> Evidence ──look──> Look ──┐
                                       └─plant─> look ────────┴──assess──> Finding

`evidence` holds the nouns, `collection` reads them once, `checks/` has one file a question, `assessing` runs a check
with its planted controls. Nothing here writes: `stages/audit.py` seals what comes of it.
"""
