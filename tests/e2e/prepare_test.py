#!/usr/bin/env python3
"""`hgtrain data prepare` with the built program, where the module's own tests do not suffice.
usage: prepare_test.py HGTRAIN"""
import gzip
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

import job

BYTES = 128 << 20


class PrepareTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def text(self, line):
        part = line * ((1 << 20) // len(line.encode()) + 1)  # this process must stay small: its children begin as it is
        with (self.folder / 'text').open('w') as file:
            for _ in range(BYTES >> 20):
                file.write(part)

    def start(self, *args, **options):
        return subprocess.Popen([job.PROGRAM, 'data', 'prepare', '--input', 'text', '--out', 'out/x', *args],
                                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def test_a_signal_that_comes_twice_at_once_leaves_nothing_behind(self):
        self.text('Some words, and a few more.\n')
        for number in signal.SIGINT, signal.SIGTERM:
            process = self.start()
            job.wait_for((self.folder / 'out/x.bin.partial').exists, process)
            for _ in range(2):
                os.kill(process.pid, number)
            _, err = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 128 + number, err)
            self.assertIn('nothing was written', err)
            self.assertEqual(list((self.folder / 'out').iterdir()), [])

    @unittest.skipIf(job.SANITIZED, 'a sanitizer takes memory of its own')
    def test_a_file_whose_lines_end_with_no_letter_takes_little_memory(self):
        self.text('In 1984 (he said): "Ändern, 我们改变!" 12.\n')
        fixture = pathlib.Path(__file__).parents[1] / 'fixtures/tokenizers/gpt2.json'
        kept = json.loads(fixture.read_text())
        kept['added_tokens'] = [t for t in kept['added_tokens'] if not t['lstrip'] and not t['rstrip']]
        (self.folder / 'tokenizer.json').write_text(json.dumps(kept))
        process = self.start('--tokenizer', 'tokenizer.json', '--threads', '2')
        _, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, err)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.assertLess(peak, BYTES)

    @unittest.skipIf(job.SANITIZED, 'a sanitizer takes memory of its own')
    def test_a_line_without_an_end_takes_little_memory(self):
        with gzip.open(self.folder / 'text.jsonl.gz', 'wb', compresslevel=1) as file:
            file.write(b'{"text": "')
            for _ in range(600):
                file.write(bytes(1 << 20).replace(b'\0', b'x'))
        process = subprocess.Popen([job.PROGRAM, 'data', 'prepare', '--input', 'text.jsonl.gz', '--out', 'x'],
                                   cwd=self.folder, stderr=subprocess.PIPE, text=True)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn('text.jsonl.gz:1', err)
        self.assertIn('longer than 64 MiB', err)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        self.assertLess(peak, 400 << 20)


if __name__ == '__main__':
    unittest.main(verbosity=2)
