"""The folder of the runs of a test."""
import pathlib
import sys
import tempfile


class RunFolder(tempfile.TemporaryDirectory):
    """A temporary folder; before it is removed, the ends of the logs of ranks that crashed are printed, with the whole stacks."""

    def cleanup(self):
        for log in sorted(pathlib.Path(self.name).rglob('rank_*.log')):
            text = log.read_text(errors='replace')
            if 'crashed with SIG' in text:
                print(f'{log}:', *text.splitlines()[-100:], sep='\n', file=sys.stderr)
        super().cleanup()
