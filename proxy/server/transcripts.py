"""Conversations in a folder, one file each, for whoever asks for them: `pruning-proxy replay FOLDER` reads them.

The store keeps what must be remembered, and that is never a whole history: clients have it. So a transcript is written
only where `store.transcripts` names a folder, and stays until somebody deletes it.
"""

import asyncio
import gzip
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proxy.errors import SettingsError
from proxy.wire.body import dumps

_OURS_ONLY = 0o600
_FAST = 1
"""Level of gzip: a third larger than the best one, and ten times as fast."""


class Transcripts:
    """Keeps the newest request of each conversation, which holds all earlier ones."""

    def __init__(self, folder: str) -> None:
        """`~` is expanded, the folder is made. Raises SettingsError where that is not possible."""
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(f"store.transcripts: cannot make the folder {folder!r}: {error.strerror}") from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise SettingsError(f"store.transcripts: cannot write into the folder {folder!r}")
        # One alone: of two requests of a conversation, the later one is written later.
        self._thread = ThreadPoolExecutor(1, "pruning-proxy-transcripts")

    async def keep(self, session: str, model: str, body: bytes) -> None:
        """Replace the conversation's file, off the event loop. `body`: JSON, as the client sent it. Raises OSError."""
        # Gemini names its model in the path only.
        text = b'{"session":' + dumps(session) + b',"model":' + dumps(model) + b',"request":' + body + b"}\n"
        path = self._folder / f"{session}.json.gz"
        await asyncio.get_running_loop().run_in_executor(self._thread, self._write, path, text)

    def _write(self, path: Path, text: bytes) -> None:
        # Under a name of its own first: another worker may write the same conversation, and a reader may be reading.
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            partial.touch(_OURS_ONLY, exist_ok=False)
            partial.write_bytes(gzip.compress(text, _FAST))
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
