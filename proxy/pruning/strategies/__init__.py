"""Pure: what can be done to a result at first sight, one strategy a file.

ansi, collapse, repeats, cap
                        codes of terminals; routine output; texts that stand there already; what is too large
passages                the index that `repeats` looks into
"""
