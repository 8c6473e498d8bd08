#!/usr/bin/env python3
"""The files of a model folder other than weights, in training and after a resume.
usage: model_folder_test.py HGTRAIN"""
import json
import shutil
import unittest

import job

# As transformers would find them; the texts need not be right.
FILES = {
    'chat_template.jinja': '{% for m in messages %}{{ m.content }}{% endfor %}',
    'additional_chat_templates/rag.jinja': '{{ documents }}',
    'special_tokens_map.json': '{"eos_token": "<|endoftext|>"}',
    'tokenizer.model': '\x00sentencepiece',
    'preprocessor_config.json': '{}',
    'generation_config.json': '{\n "eos_token_id": [256, 10],\n "temperature": 0.6}',
}


class ModelFolderTest(job.JobTest):
    def source(self, name):
        """The weights of the run as a folder from a hub."""
        folder = self.job.folder / name
        (folder / 'additional_chat_templates').mkdir(parents=True)
        for file in 'model.safetensors', 'tokenizer.json':
            shutil.copy(self.job.folder / 'whole/checkpoints/step_00000020' / file, folder)
        for file, text in FILES.items():
            (folder / file).write_text(text)
        config = self.job.read_json('whole/checkpoints/step_00000020', 'config.json')
        config |= {'eos_token_id': [256, 10], 'pad_token_id': 0, 'use_cache': False, 'made_up': {'x': [1]}, 'n_ctx': 32}
        (folder / 'config.json').write_text(json.dumps(config))
        return config

    def assert_kept(self, run, step, config):
        folder = self.job.folder / run / 'checkpoints' / f'step_{step:08}'
        for file, text in FILES.items():
            self.assertEqual((folder / file).read_text(), text, file)
        self.assertEqual(json.loads((folder / 'config.json').read_text()), config)

    def test_a_checkpoint_has_the_files_of_its_source(self):
        config = self.source('source')
        self.job.train('tuned', '--model.init', 'source', '--steps', 2)
        self.assert_kept('tuned', 2, config)
        # A run that starts from the checkpoint has it as well.
        self.job.train('again', '--model.init', 'tuned', '--steps', 1)
        self.assert_kept('again', 1, config)
        changed = self.job.train('ends', '--model.init', 'source', '--steps', 1, '--model.eos_token_id', 10)
        self.assertIn("the data's documents end with token 256", changed)
        for file in 'config.json', 'generation_config.json':
            self.assertEqual(self.job.read_json('ends/checkpoints/step_00000001', file)['eos_token_id'], 10)

    def test_a_resumed_run_keeps_the_files_if_the_source_is_gone(self):
        config = self.source('passing')
        self.job.train('kept', '--model.init', 'passing', '--tokenizer.path', 'passing', '--steps', 2)
        shutil.rmtree(self.job.folder / 'passing')
        said = self.job.train('kept', '--model.init', 'passing', '--tokenizer.path', 'passing', '--steps', 4,
                              '--resume', 'auto')
        self.assertIn('cannot open passing/config.json', said)
        self.assertIn('the model is that of kept/checkpoints/step_00000002', said)
        self.assertIn('tokenizer.path = passing is gone', said)
        self.assert_kept('kept', 4, config)
        self.assertIn('passing', self.job.train('fresh', '--model.init', 'passing', exit_code=2))

    def test_weights_of_another_model_are_refused_with_both_values(self):
        self.source('other')
        said = self.job.train('refused', '--model.init', 'other', '--model.n_head', 4, exit_code=2)
        self.assertIn('n_head = 4, but the weights in other are those of a model with n_head = 2', said)
        self.job.train('dropped', '--model.init', 'other', '--model.attn_pdrop', 0.2, '--steps', 1)

    def test_generation_ends_at_any_of_the_tokens(self):
        self.source('endings')
        generate = lambda: json.loads(self.job.call('generate', '--model', 'endings', '--prompt', 'the quick ', '--json',
                                                    '--temperature', 0, '--max_tokens', 5, '--threads', 1))
        new = generate()['text']
        self.assertNotIn('\n', new)
        path = self.job.folder / 'endings/generation_config.json'
        path.write_text(json.dumps({'eos_token_id': [256, ord(new[2])]}))
        out = generate()
        self.assertEqual((out['stop'], out['text']), ('end_of_text', new[:new.index(new[2])]))
        path.unlink()
        config = self.job.read_json('endings', 'config.json') | {'eos_token_id': [1, 2, ord(new[0])]}
        (self.job.folder / 'endings/config.json').write_text(json.dumps(config))
        self.assertEqual((generate()['stop'], generate()['tokens']), ('end_of_text', 0))

    def test_a_damaged_generation_config_is_named_before_the_first_step(self):
        self.source('damaged')
        (self.job.folder / 'damaged/generation_config.json').write_text('{')
        said = self.job.train('damaged_run', '--model.init', 'damaged', exit_code=4)
        self.assertIn('damaged/generation_config.json is not a JSON object', said)
        self.assertEqual(self.job.metrics('damaged_run'), [])


if __name__ == '__main__':
    unittest.main(verbosity=2)
