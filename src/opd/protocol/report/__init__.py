"""The report of an attempt: what the evidence holds, in a page and in full, with a source for every number.

sources ─> story ─> sections ─> brief.md analysis.md   texts whose numbers and comparing words are marked
              └───> comparing ─> comparisons/          by the install's `opd compare`: nothing is computed here
                    book ─> claims.json                what the marks stand for
                    drawing ─> report.json ─> index.html by the install's view
"""
