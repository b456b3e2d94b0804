"""Pure: what is remembered. Records and the protocol that every store fulfils.

records, originals      anchors, plans and turns; what edits replaced
store                   the protocol
"""
