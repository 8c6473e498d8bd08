#!/usr/bin/env python3
"""Generation from a run's checkpoints with the built program.
usage: generate_test.py HGTRAIN"""
import json
import shutil
import subprocess
import unittest

import job


class GenerateTest(job.JobTest):
    newest = 'whole/checkpoints/step_00000020'

    def generate(self, *args, model='whole', prompt='the quick ', text='', exit_code=0):
        """Returns stdout if the exit code is 0, else stderr."""
        done = subprocess.run([job.PROGRAM, 'generate', '--model', model, '--prompt', prompt, '--threads', '1', *args],
                              cwd=self.job.folder, input=text.encode(), capture_output=True, timeout=600)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        noted = b"hgtrain: note: the text stops here: the model's context of 32 tokens is full, and does not slide\n"
        self.assertTrue(done.stderr and done.stderr != noted if exit_code else done.stderr in (b'', noted))
        self.noted = done.stderr == noted
        self.assertEqual(done.stdout == b'', exit_code != 0)
        return (done.stderr if exit_code else done.stdout).decode()

    def test_prompt_and_continuation_are_printed_and_nothing_else(self):
        whole = self.generate('--max_tokens', '12', '--temperature', '0')
        self.assertTrue(whole.startswith('the quick ') and whole.endswith('\n'))
        new = self.generate('--max_tokens', '12', '--temperature', '0', '--no-prompt')
        self.assertEqual(whole.rstrip('\n'), 'the quick ' + new.rstrip('\n'))
        piped = self.generate('--max_tokens', '12', '--temperature', '0', prompt='-', text='the quick \n')
        self.assertEqual(piped, whole)
        self.assertEqual(self.generate('--max_tokens', '0'), 'the quick \n')

    def test_a_full_context_is_noted_unless_max_tokens_fits(self):
        self.generate('--max_tokens', '23')
        self.assertTrue(self.noted)
        self.generate('--max_tokens', '22')
        self.assertFalse(self.noted)

    def test_generate_works_in_16_bits(self):
        for dtype in 'bf16', 'fp16':
            self.assertEqual(json.loads(self.generate('--dtype', dtype, '--json', '--max_tokens', '5'))['tokens'], 5)
        self.assertIn('fp8', self.generate('--dtype', 'fp8', exit_code=2))

    def test_a_run_folder_means_its_newest_checkpoint(self):
        self.assertEqual(self.generate(), self.generate(model=self.newest))

    def test_the_seed_determines_the_text(self):
        self.assertEqual(self.generate('--seed', '1'), self.generate('--seed', '1'))
        self.assertNotEqual(self.generate('--seed', '1'), self.generate('--seed', '2'))

    def test_json_has_the_text_and_why_it_ended(self):
        out = json.loads(self.generate('--json', '--max_tokens', '5', '--temperature', '0'))
        self.assertEqual((out['prompt'], out['prompt_tokens'], out['tokens'], out['stop']), ('the quick ', 10, 5, 'max_tokens'))
        full = json.loads(self.generate('--json', '--max_tokens', '500', '--temperature', '0'))
        self.assertEqual((full['tokens'], full['stop']), (22, 'context_full'))  # of 32 positions
        self.assertTrue(full['text'].startswith(out['text']))

    def test_invalid_utf8_never_reaches_the_output(self):
        self.generate('--temperature', '100', '--top_k', '0', '--max_tokens', '20')  # decodes as UTF-8

    def test_wrong_options_exit_with_2(self):
        self.assertIn('nowhere is not a folder', self.generate(model='nowhere', exit_code=2))
        self.assertIn('top_p', self.generate('--top_p', '0', exit_code=2))
        self.assertIn('--max_tokens', self.generate('--max_tokens', '-1', exit_code=2))
        for seed in ('-1', '99999999999999999999', '1.5'):
            self.assertIn('--seed', self.generate('--seed', seed, exit_code=2))
        self.assertIn('--device cpu', self.generate('--device', 'cuda', exit_code=3))
        self.assertIn('the prompt has 33 tokens', self.generate(prompt='x' * 33, exit_code=2))

    def test_a_damaged_checkpoint_exits_with_4_and_names_the_one_before(self):
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'damaged')
        weights = self.job.folder / 'damaged/checkpoints/step_00000020/model.safetensors'
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
        err = self.generate(model='damaged', exit_code=4)
        self.assertRegex(err, 'model.safetensors is damaged: tensor transformer')
        self.assertIn('damaged/checkpoints/step_00000015', err)
        self.generate(model='damaged/checkpoints/step_00000015')


if __name__ == '__main__':
    unittest.main(verbosity=2)
