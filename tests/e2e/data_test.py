#!/usr/bin/env python3
"""What a run checks of its data and tokenizer, with the built program. usage: data_test.py HGTRAIN"""
import json
import os
import pathlib
import shutil
import unittest

import job
from run_folder import RunFolder


class DataTest(unittest.TestCase):
    def setUp(self):
        temporary = RunFolder()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.job = job.Job(self.folder)

    def train(self, run, *args, exit_code=0):
        return self.job.train(run, '--steps', 10, *args, workers=1, exit_code=exit_code)

    def change(self, name, edit):
        path = self.folder / name
        path.write_bytes(edit(path.read_bytes()))

    def test_a_run_resumes_with_a_copy_of_its_data_and_with_no_other_data(self):
        self.job.train('run', '--steps', 5, workers=1)
        (self.folder / 'elsewhere').mkdir()
        for name in 'data.bin', 'data.idx', 'data.json':
            shutil.move(self.folder / name, self.folder / 'elsewhere' / name)
        shutil.move(self.folder / 'data.tokenizer', self.folder / 'elsewhere/data.tokenizer')
        there = '--data.train_data_path', self.folder / 'elsewhere/data'
        shutil.copytree(self.folder / 'run', self.folder / 'twin')
        self.assertIn('resuming from step 5', self.train('run', '--resume', 'auto', *there))

        (self.folder / 'elsewhere/data.json').unlink()  # which would show it at once
        self.change('elsewhere/data.bin', lambda b: b[:len(b) // 2] + b'a\0' + b[len(b) // 2 + 2:])
        model = '--model.vocab_size', 257, '--data.end_of_text', 256  # what the manifest said
        err = self.train('twin', '--resume', 'auto', *there, *model, exit_code=2)
        self.assertIn('was trained on other batches', err)

    def test_json_of_prepare_lists_what_was_skipped(self):
        (self.folder / 'mix').mkdir()
        for name, text in (('a.txt', 'some text'), ('b.csv', 'x,y'), ('c.json', '[1]')):
            (self.folder / 'mix' / name).write_text(text)
        said = json.loads(self.job.call('data', 'prepare', '--input', 'mix', '--out', 'mixed', '--json'))
        self.assertEqual(said['documents'], 1)
        self.assertEqual((said['passed_over']['other_files'], said['passed_over']['json_files']), (['mix/b.csv'], ['mix/c.json']))

    def test_prepared_data_that_was_changed_is_refused(self):
        for name, edit in (
                ('data.json', lambda b: b.replace(b'"vocab_size": 257', b'"vocab_size": 300')),
                ('data.bin', lambda b: b[:len(b) // 2] + b'\1\0' + b[len(b) // 2 + 2:]),
                ('data.tokenizer/tokenizer.json', lambda b: b[:len(b) // 2])):
            before = (self.folder / name).read_bytes()
            self.change(name, edit)
            err = self.train('changed', exit_code=4)
            self.assertIn(f'{name} ', err)
            self.job.call('data', 'inspect', 'data', '--verify', exit_code=4)
            self.assertFalse((self.folder / 'changed/checkpoints').exists())
            (self.folder / name).write_bytes(before)
        self.assertIn('verified', self.job.call('data', 'inspect', 'data', '--verify'))

    def test_data_of_earlier_versions_is_accepted_unless_its_tokenizer_differs(self):
        manifest = json.loads((self.folder / 'data.json').read_text())
        for key in 'begin_of_text', 'bin_sample_xxh3', 'tokenizer_files', 'manifest_xxh3':
            del manifest[key]
        for size, exit_code in (257, 0), (300, 4):
            shutil.rmtree(self.folder / 'old', ignore_errors=True)
            (self.folder / 'data.json').write_text(json.dumps({**manifest, 'format_version': 1, 'vocab_size': size}))
            said = self.train('old', exit_code=exit_code)
        self.assertIn('vocab_size = 300, but its tokenizer', said)

    def test_data_whose_tokenizer_is_not_the_models_is_refused(self):
        self.train('first')
        checkpoint = self.folder / 'first/checkpoints/step_00000010'
        tokenizer = json.loads((checkpoint / 'tokenizer.json').read_text())
        vocab = tokenizer['model']['vocab']
        vocab['A'], vocab['B'] = vocab['B'], vocab['A']  # of the same size and end of text
        (self.folder / 'other').mkdir()
        (self.folder / 'other/tokenizer.json').write_text(json.dumps(tokenizer))
        self.job.call('data', 'prepare', '--input', 'text.txt', '--out', 'others', '--tokenizer', 'other')
        init = '--model.init', checkpoint, '--data.train_data_path', 'others'
        self.assertIn('prepared with another tokenizer', self.train('second', *init, exit_code=2))
        self.train('second', *init, '--tokenizer.path', 'others.tokenizer')
        self.assertIn('different tokenizers', self.train('both', '--data.valid_fraction', 0, '--data.valid_data_path',
                                                         'others', exit_code=2))

    def test_documents_and_prompts_begin_with_the_same_tokens(self):
        tokenizer = json.loads((self.folder / 'data.tokenizer/tokenizer.json').read_text())
        tokenizer['post_processor'] = {
            'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '!', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
            'pair': [], 'special_tokens': {'!': {'id': '!', 'ids': [33], 'tokens': ['!']}}}
        (self.folder / 'bos').mkdir()
        (self.folder / 'bos/tokenizer.json').write_text(json.dumps(tokenizer))
        (self.folder / 'lines.jsonl').write_text('{"text": "ab"}\n{"text": "c"}\n')
        self.job.call('data', 'prepare', '--input', 'lines.jsonl', '--out', 'lines', '--tokenizer', 'bos')
        report = json.loads(self.job.call('data', 'inspect', 'lines', '--json'))
        self.assertEqual(report['first_tokens'], [33, 97, 98, 256, 33, 99, 256])
        self.assertEqual(report['manifest']['begin_of_text'], 33)
        self.job.call('data', 'prepare', '--input', 'text.txt', '--out', 'begun', '--tokenizer', 'bos')
        self.train('begun', '--data.train_data_path', 'begun')
        config = self.job.read_json('begun/checkpoints/step_00000010', 'config.json')
        self.assertEqual((config['bos_token_id'], config['eos_token_id']), (33, 256))

    def test_a_pipe_in_place_of_any_file_is_refused_without_waiting(self):
        self.train('whole')
        checkpoint = 'whole/checkpoints/step_00000010'
        names = ['data.bin', 'data.idx', 'data.json', 'data.tokenizer/tokenizer.json', 'text.txt']
        names += [f'{checkpoint}/{p.name}' for p in (self.folder / checkpoint).iterdir()]
        for name in names:
            path = self.folder / name
            path.rename(self.folder / 'aside')
            os.mkfifo(path)
            calls = [['data', 'prepare', '--input', 'text.txt', '--out', 'new', '--tokenizer', 'data.tokenizer']]
            if 'data.' in name:
                calls = [['data', 'inspect', 'data', '--verify'], self.job.arguments('new', 1)]
            elif checkpoint in name:
                calls = [['generate', '--model', checkpoint, '--prompt', 'a', '--device', 'cpu'],
                         (*self.job.arguments('new', 1), '--resume', checkpoint)]
            said = ''.join(self.job.call(*call, exit_code=None) for call in calls)
            with self.subTest(name):
                self.assertRegex(said, 'is a pipe, not a file|is neither a file nor a folder')
            path.unlink()
            (self.folder / 'aside').rename(path)
            shutil.rmtree(self.folder / 'new', ignore_errors=True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
