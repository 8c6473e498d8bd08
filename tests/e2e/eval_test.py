#!/usr/bin/env python3
"""Evaluation of a run's checkpoints with the built program.
usage: eval_test.py HGTRAIN"""
import json
import math
import shutil
import subprocess
import unittest

import job


class EvalTest(job.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.logged = {step: eval_loss for step, _, eval_loss in cls.whole if eval_loss is not None}
        (cls.job.folder / 'other.txt').write_text(job.text()[::-1])
        cls.job.call('data', 'prepare', '--input', 'other.txt', '--out', 'other')

    def run_eval(self, *args, exit_code=0):
        """Returns stdout if the exit code is 0, else stderr."""
        done = subprocess.run([job.PROGRAM, 'eval', *map(str, args)], cwd=self.job.folder, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        self.assertEqual(done.stdout == '', exit_code != 0)
        return done.stderr if exit_code else done.stdout

    def json(self, *args):
        return json.loads(self.run_eval('--device', 'cpu', '--json', *args))

    def test_the_loss_is_the_one_that_training_logged_for_any_number_of_workers(self):
        for step, loss in self.logged.items():
            model = f'whole/checkpoints/step_{step:08}'
            found = self.json('--config', 'config.json', '--model', model, '--max_batches', 2)
            self.assertEqual((found['loss'], found['model']), (loss, model))
        for workers in 2, 3:
            found = self.json('--config', 'config.json', '--run_dir', 'whole', '--max_batches', 2, '--num_workers', workers)
            self.assertEqual(found['loss'], self.logged[20])
        self.assertEqual(found['perplexity'], math.exp(found['loss']))
        self.assertEqual((found['samples'], found['seq_length'], found['tokens']), (16, 32, 512))

    def test_a_layout_is_not_dropped_silently(self):
        args = ('eval', '--device', 'cpu', '--config', 'config.json', '--run_dir', 'whole', '--max_batches', '1')
        said = [subprocess.run([job.PROGRAM, *args, *layout], cwd=self.job.folder, capture_output=True, text=True, timeout=120).stderr
                for layout in ((), ('--parallelism.tensor_parallel_size', '2'))]
        self.assertNotIn('does not split', said[0])
        self.assertIn('note: eval does not split the model: each worker has all of it, in spite of parallelism.tensor_parallel_size = 2', said[1])

    def test_all_of_a_file_is_evaluated(self):
        split = self.json('--model', 'whole')
        other = self.json('--model', 'whole', '--data', 'other')
        self.assertGreater(split['samples'], 16)
        self.assertGreater(other['samples'], 9 * split['samples'])
        self.assertGreater(other['loss'], split['loss'])
        first = self.json('--model', 'whole', '--data', 'other.bin', '--max_batches', 1)
        self.assertEqual(first['samples'], 8)
        self.assertEqual(self.json('--model', 'whole', '--data', 'other', '--max_batches', 99999999), other)

    def test_the_names_in_a_checkpoints_folder_are_models_and_keys_of_a_model_are_refused(self):
        latest = self.json('--model', 'whole/checkpoints/latest', '--max_batches', 2)
        self.assertEqual((latest['loss'], latest['model']), (self.logged[20], 'whole/checkpoints/step_00000020'))
        said = self.run_eval('--model', 'whole', '--model.n_embd', '64', exit_code=2)
        self.assertIn('--model.n_embd cannot change the model that is evaluated', said)

    def test_the_result_is_three_lines_on_stdout(self):
        out = self.run_eval('--config', 'config.json', '--run_dir', 'whole', '--max_batches', 2, '--device', 'cpu')
        loss = self.logged[20]
        self.assertEqual([line.split()[0] for line in out.splitlines()], ['loss', 'perplexity', 'tokens'])
        self.assertEqual([float(line.split()[1]) for line in out.splitlines()], [loss, math.exp(loss), 512])

    def test_a_model_folder_brings_its_own_architecture(self):
        """The config describes another model, and has no length of a run."""
        folder = self.job.folder / 'hub'
        folder.mkdir()
        for name in 'config.json', 'model.safetensors':
            shutil.copy(self.job.folder / 'whole/checkpoints/step_00000020' / name, folder)
        config = {'model': {'model_type': 'llama', 'hidden_size': 64}, 'train_batch_size': 8,
                  'train_micro_batch_size_per_gpu': 1, 'training': {'seq_length': 32}, 'hardware': {'threads': 1},
                  'data': {'train_data_path': 'nowhere', 'valid_data_path': 'nowhere'}}
        (self.job.folder / 'other.json').write_text(json.dumps(config))
        ours = self.json('--config', 'other.json', '--model', 'hub', '--data', 'other', '--max_batches', 3)
        self.assertEqual(ours['loss'], self.json('--model', 'whole', '--data', 'other', '--max_batches', 3)['loss'])

    def test_it_computes_in_the_precision_of_the_config(self):
        args = '--bf16.enabled', 'true', '--training.ema_decay', 0.9
        self.job.train('half', *args, '--steps', 5)
        logged = self.job.losses('half')[-1][2]
        self.assertEqual(self.json('--model', 'half', '--max_batches', 2)['loss'], logged)
        average = self.json('--model', 'half', '--max_batches', 2, '--ema')
        self.assertNotEqual(average['loss'], logged)
        self.assertEqual(average['weights'], 'ema')

    def test_wrong_options_exit_with_2(self):
        self.assertIn('neither a config nor a model is named', self.run_eval(exit_code=2))
        shutil.copytree(self.job.folder / 'whole/checkpoints/step_00000020', self.job.folder / 'lone')
        self.assertIn('lone belongs to no run', self.run_eval('--model', 'lone', exit_code=2))
        self.assertIn('there is no model nowhere', self.run_eval('--model', 'nowhere', exit_code=2))
        self.assertIn('there is no run folder runs/config: config.json has not been trained yet', self.run_eval('--config', 'config.json', exit_code=2))
        shaped = 'shaped', '--model.n_positions', 16, '--training.seq_length', 16, '--steps', 1
        self.job.train(*shaped)
        said = self.run_eval('--config', 'config.json', '--run_dir', 'shaped', exit_code=2)
        self.assertIn('hint: leave --config out: hgtrain eval --model shaped\n', said)
        self.json('--model', 'shaped')
        said = self.run_eval('--model', 'shaped', '--training.seq_length', 17, exit_code=2)
        self.assertIn('hint: shorten training.seq_length\n', said)
        self.assertIn('--max_batches', self.run_eval('--model', 'whole', '--max_batches', -1, exit_code=2))
        self.assertIn('--num_workers', self.run_eval('--model', 'whole', '--num_workers', 0, exit_code=2))
        self.assertIn('--data PREFIX', self.run_eval('--model', 'whole', '--data.valid_fraction', 0, exit_code=2))
        small = self.job.read_json('whole/checkpoints/step_00000020', 'config.json') | {'vocab_size': 99}
        shutil.copytree(self.job.folder / 'whole/checkpoints/step_00000020', self.job.folder / 'small')
        (self.job.folder / 'small/config.json').write_text(json.dumps(small))
        (self.job.folder / 'small/manifest.json').unlink()  # the config is not the one that was saved
        said = self.run_eval('--config', 'config.json', '--model', 'small', exit_code=2)
        self.assertIn('the data has a vocabulary of 257, the model in small one of 99', said)

    def test_relative_data_is_looked_for_in_the_folder_of_the_command(self):
        elsewhere = self.job.folder / 'elsewhere'
        elsewhere.mkdir()
        done = subprocess.run([job.PROGRAM, 'eval', '--model', '../whole'], cwd=elsewhere, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn('there is no token file data in this folder', done.stderr)
        self.assertIn('start eval in the folder that the run was started in', done.stderr)
        subprocess.run([job.PROGRAM, 'eval', '--model', '../whole', '--data', '../data'], cwd=elsewhere, check=True)

    def test_damaged_files_exit_with_4_and_losses_that_are_not_finite_with_5(self):
        self.assertRegex(self.run_eval('--model', 'whole', '--data', 'nowhere', exit_code=2),
                         f'no token file nowhere: .* \\(in {self.job.folder}\\)')
        shutil.copytree(self.job.folder / 'whole/checkpoints/step_00000020', self.job.folder / 'no_config')
        (self.job.folder / 'no_config/config.json').unlink()
        self.assertIn('no_config is damaged: it has no config.json',
                      self.run_eval('--config', 'config.json', '--model', 'no_config', exit_code=4))
        shutil.copytree(self.job.folder / 'whole', self.job.folder / 'damaged')
        weights = self.job.folder / 'damaged/checkpoints/step_00000020/model.safetensors'
        data = bytearray(weights.read_bytes())
        data[-5] ^= 1
        weights.write_bytes(data)
        said = self.run_eval('--model', 'damaged', '--num_workers', 2, exit_code=4)
        self.assertIn('model.safetensors is damaged', said)
        self.assertIn('damaged/checkpoints/step_00000015', said)
        self.assertIn('no moving average', self.run_eval('--model', 'whole', '--ema', exit_code=2))
        infinite = self.job.folder / 'infinite'
        infinite.mkdir()
        for name in 'config.json', 'model.safetensors':
            shutil.copy(self.job.folder / 'whole/checkpoints/step_00000020' / name, infinite)
        data = bytearray((infinite / 'model.safetensors').read_bytes())
        data[-4:] = b'\x00\x00\xc0\x7f'
        (infinite / 'model.safetensors').write_bytes(data)
        self.assertIn('the loss is', self.run_eval('--config', 'config.json', '--model', 'infinite', exit_code=5))


if __name__ == '__main__':
    unittest.main(verbosity=2)
