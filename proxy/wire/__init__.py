"""Pure: bytes and JSON; no provider's field names.

body, elements          JSON as bytes: spans and splices; elements of an array that comes in pieces
sse, sse_filter         server-sent events read; single ones taken out
headers, encoding       raw header lists; content encodings
status                  first lines of answers
path                    which upstream a path belongs to, and what is refused
images                  width and height from a picture's first bytes
"""
