#!/usr/bin/env python3
"""Each key that `hgtrain config schema` calls used has a row here: a job, another value, and where its effect is visible.
usage: effects_test.py HGTRAIN"""
import array
import copy
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

import job
from run_folder import RunFolder

JOB = {
    'train_batch_size': 4,
    'optimizer': {'type': 'AdamW', 'params': {'lr': 1e-2, 'weight_decay': 0.1}},
    'model': {'model_type': 'gpt2', 'n_embd': 16, 'n_layer': 2, 'n_head': 2, 'n_positions': 16, 'embd_pdrop': 0,
              'resid_pdrop': 0, 'attn_pdrop': 0},
    'training': {'train_iters': 6, 'seq_length': 16, 'eval_interval': 3, 'eval_iters': 1},
    'data': {'train_data_path': 'data', 'valid_fraction': 0.1},
    'hardware': {'device': 'cpu', 'threads': 1},
}


def but(base, **changes):
    """`base` with other values (a__b stands for the path a.b); None removes a key."""
    out = copy.deepcopy(base)
    for path, value in changes.items():
        set_key(out, path.replace('__', '.'), value)
    return out


def set_key(config, path, value):
    *sections, key = path.split('.')
    for section in sections:
        config = config.setdefault(section, {})
    if value is None:
        config.pop(key, None)
    else:
        config[key] = value


def family(model_type, **keys):
    return but(JOB, model={'model_type': model_type, 'hidden_size': 16, 'intermediate_size': 32, 'num_hidden_layers': 2,
                           'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 16, **keys})


def zero(stage):
    return but(JOB, zero_optimization={'stage': stage})


def schedule(name, **params):
    return but(JOB, scheduler={'type': name, 'params': params})


ADAM = but(JOB, optimizer__type='Adam')
SGD = but(JOB, optimizer={'type': 'SGD', 'params': {'lr': 0.1, 'momentum': 0.9}})
LAMB = but(JOB, optimizer={'type': 'Lamb', 'params': {'lr': 0.1}})
WSD = but(JOB, training__lr_schedule={'type': 'wsd', 'decay_iters': 3})
LLAMA, MISTRAL = family('llama'), family('mistral', sliding_window=8)
QWEN = family('qwen2', use_sliding_window=True, sliding_window=4, max_window_layers=1)
WARMUP = schedule('WarmupLR', warmup_min_lr=0, warmup_max_lr=0.01, warmup_num_steps=4)
DECAY = schedule('WarmupDecayLR', warmup_max_lr=0.01, warmup_num_steps=2)
COSINE = schedule('WarmupCosineLR', warmup_num_steps=3)
RANGE = schedule('LRRangeTest', lr_range_test_min_lr=0.001, lr_range_test_step_size=2)
CYCLE = schedule('OneCycle', cycle_min_lr=0.001, cycle_max_lr=0.01, cycle_first_step_size=2, cycle_second_step_size=2,
                 decay_step_size=1, decay_lr_rate=0.5, decay_mom_rate=0.1)
NO_LENGTH = but(JOB, training__train_iters=None)
CONSTANT = but(JOB, optimizer__params__lr=0, training__eval_interval=1)
RAW = but(JOB, data__train_data_path='raw.bin', model__vocab_size=70000)
FP16 = but(JOB, fp16={'enabled': True, 'initial_scale_power': 8})
OVERFLOWING = but(JOB, fp16={'enabled': True, 'initial_scale_power': 31}, training__train_iters=40)
# Overflows, a clean step whose update enlarges the gradients, an overflow.
JUMPING = but(JOB, fp16={'enabled': True, 'initial_scale_power': 21}, optimizer__params__lr=1.0)
PIPELINE = but(JOB, parallelism={'pipeline_parallel_size': 2})
INTERLEAVED = but(JOB, model__n_layer=4, parallelism={'pipeline_parallel_size': 2, 'pipeline_schedule': 'interleaved',
                                                      'virtual_pipeline_stages': 2})
ELASTIC = but(JOB, train_batch_size=None, elasticity={'enabled': True, 'max_train_batch_size': 8, 'micro_batch_sizes': [2]})
ELASTIC_BOTH = but(ELASTIC, train_batch_size=3)
SAVING = but(JOB, checkpoint={'save_interval': 2})

# key -> (job, another value, where it shows: a method of Effects below)
ROWS = {
    'train_batch_size': (JOB, 8, 'tokens_per_step'),
    'train_micro_batch_size_per_gpu': (JOB, 2, 'batch_arithmetic'),
    'gradient_accumulation_steps': (JOB, 2, 'batch_arithmetic'),
    'data_parallel_size': (JOB, 2, 'refusal'),
    'pipe_parallel_size': (JOB, 2, 'refusal'),
    'model_parallel_size': (JOB, 2, 'refusal'),
    'tensor_parallel.autotp_size': (JOB, 2, 'refusal'),
    'tensor_parallel.tp.tp_size': (JOB, 2, 'refusal'),
    'pipeline.stages': (JOB, 2, 'refusal'),
    'elasticity.enabled': (ELASTIC, False, 'refusal'),
    'elasticity.max_train_batch_size': (ELASTIC, 4, 'batch_arithmetic'),
    'elasticity.micro_batch_sizes': (ELASTIC, [4], 'batch_arithmetic'),
    'elasticity.min_gpus': (ELASTIC, 2, 'refusal'),
    'elasticity.max_gpus': (but(ELASTIC, elasticity__max_train_batch_size=6, elasticity__micro_batch_sizes=[2, 3],
                                elasticity__prefer_larger_batch=False), 1, 'batch_arithmetic'),
    'elasticity.num_gpus_per_node': (ELASTIC, 2, 'refusal'),
    'elasticity.model_parallel_size': (ELASTIC, 2, 'refusal'),
    'elasticity.version': (but(ELASTIC, elasticity__num_gpus_per_node=2), 0.1, 'refusal'),
    'elasticity.prefer_larger_batch': (but(ELASTIC, elasticity__max_train_batch_size=3, elasticity__micro_batch_sizes=[2, 3]), False,
                                       'batch_arithmetic'),
    'elasticity.ignore_non_elastic_batch_info': (ELASTIC_BOTH, True, 'refusal'),
    'gradient_clipping': (JOB, 0.01, 'losses'),
    'steps_per_print': (JOB, 3, 'console_steps'),
    'optimizer.type': (but(ADAM, optimizer__params__adam_w_mode=False), 'AdamW', 'losses'),
    'optimizer.params.lr': (JOB, 0.02, 'learning_rates'),
    'optimizer.params.betas': (JOB, [0.5, 0.6], 'losses'),
    'optimizer.params.eps': (JOB, 1.0, 'losses'),
    'optimizer.params.weight_decay': (JOB, 1.0, 'losses'),
    'optimizer.params.bias_correction': (JOB, False, 'losses'),
    'optimizer.params.adam_w_mode': (ADAM, False, 'losses'),
    'optimizer.params.momentum': (SGD, 0.5, 'losses'),
    'optimizer.params.dampening': (SGD, 0.5, 'losses'),
    'optimizer.params.nesterov': (SGD, True, 'losses'),
    'optimizer.params.min_coeff': (LAMB, 5, 'losses'),
    'optimizer.params.max_coeff': (LAMB, 0.02, 'losses'),
    'optimizer.params.eps_inside_sqrt': (LAMB, True, 'losses'),
    'scheduler.type': (JOB, 'WarmupLR', 'learning_rates'),
    'scheduler.params.warmup_min_lr': (WARMUP, 0.005, 'learning_rates'),
    'scheduler.params.warmup_max_lr': (DECAY, 0.02, 'learning_rates'),
    'scheduler.params.warmup_num_steps': (WARMUP, 2, 'learning_rates'),
    'scheduler.params.last_batch_iteration': (WARMUP, 1, 'learning_rates'),
    'scheduler.params.warmup_type': (WARMUP, 'linear', 'learning_rates'),
    'scheduler.params.total_num_steps': (DECAY, 20, 'learning_rates'),
    'scheduler.params.warmup_min_ratio': (COSINE, 0.5, 'learning_rates'),
    'scheduler.params.cos_min_ratio': (COSINE, 0.5, 'learning_rates'),
    'scheduler.params.cycle_min_lr': (CYCLE, 0.002, 'learning_rates'),
    'scheduler.params.cycle_max_lr': (CYCLE, 0.02, 'learning_rates'),
    'scheduler.params.decay_lr_rate': (CYCLE, 2, 'learning_rates'),
    'scheduler.params.cycle_first_step_size': (CYCLE, 4, 'learning_rates'),
    'scheduler.params.cycle_second_step_size': (CYCLE, 4, 'learning_rates'),
    'scheduler.params.cycle_first_stair_count': (CYCLE, 1, 'learning_rates'),
    'scheduler.params.cycle_second_stair_count': (CYCLE, 1, 'learning_rates'),
    'scheduler.params.decay_step_size': (CYCLE, 3, 'learning_rates'),
    'scheduler.params.cycle_momentum': (CYCLE, False, 'losses'),
    'scheduler.params.cycle_min_mom': (CYCLE, 0.5, 'losses'),
    'scheduler.params.cycle_max_mom': (CYCLE, 0.95, 'losses'),
    'scheduler.params.decay_mom_rate': (but(CYCLE, training__train_iters=8), 0.05, 'losses'),
    'scheduler.params.lr_range_test_min_lr': (RANGE, 0.002, 'learning_rates'),
    'scheduler.params.lr_range_test_step_size': (RANGE, 3, 'learning_rates'),
    'scheduler.params.lr_range_test_step_rate': (RANGE, 2, 'learning_rates'),
    'scheduler.params.lr_range_test_staircase': (RANGE, True, 'learning_rates'),
    'fp16.enabled': (JOB, True, 'losses'),
    'fp16.loss_scale': (FP16, 4.0, 'loss_scales'),
    'fp16.initial_scale_power': (FP16, 4, 'loss_scales'),
    'fp16.loss_scale_window': (FP16, 2, 'loss_scales'),
    'fp16.hysteresis': (OVERFLOWING, 1, 'loss_scales'),
    'fp16.consecutive_hysteresis': (JUMPING, True, 'loss_scales'),
    'fp16.min_loss_scale': (OVERFLOWING, 2**30, 'exit_status'),
    'bf16.enabled': (JOB, True, 'losses'),
    'bf16.bf16_master_weights_and_grads': (but(JOB, bf16={'enabled': True}), True, 'losses'),
    'bf16.bf16_optimizer_states': (but(JOB, bf16={'enabled': True, 'bf16_master_weights_and_grads': True}), True, 'losses'),
    'activation_checkpointing.mode': (JOB, 'full', 'memory_table'),
    'activation_checkpointing.num_layers': (but(JOB, activation_checkpointing={'mode': 'full'}), 1, 'memory_table'),
    'model.model_type': (LLAMA, 'qwen2', 'parameters'),
    'model.init': (JOB, 'trained', 'first_loss'),
    'model.config': (but(JOB, model={}, model__config='gpt2.json'), 'llama.json', 'parameters'),
    'model.vocab_size': (JOB, 300, 'parameters'),
    'model.hidden_size': (LLAMA, 32, 'parameters'),
    'model.intermediate_size': (LLAMA, 48, 'parameters'),
    'model.num_hidden_layers': (LLAMA, 1, 'parameters'),
    'model.num_attention_heads': (LLAMA, 2, 'losses'),
    'model.num_key_value_heads': (LLAMA, 4, 'parameters'),
    'model.head_dim': (LLAMA, 8, 'parameters'),
    'model.max_position_embeddings': (but(JOB, model__n_positions=None), 64, 'parameters'),
    'model.hidden_act': (JOB, 'relu', 'losses'),
    'model.norm_eps': (LLAMA, 0.1, 'losses'),
    'model.initializer_range': (JOB, 0.5, 'first_loss'),
    'model.embd_pdrop': (JOB, 0.5, 'losses'),
    'model.resid_pdrop': (JOB, 0.5, 'losses'),
    'model.attn_pdrop': (JOB, 0.5, 'losses'),
    'model.tie_word_embeddings': (JOB, False, 'parameters'),
    'model.attention_bias': (LLAMA, True, 'parameters'),
    'model.mlp_bias': (LLAMA, True, 'parameters'),
    'model.scale_attn_by_inverse_layer_idx': (but(JOB, model__initializer_range=0.5), True, 'losses'),
    'model.bos_token_id': (JOB, 7, 'checkpoint_config'),
    'model.eos_token_id': (JOB, 7, 'checkpoint_config'),
    'model.sliding_window': (MISTRAL, 2, 'losses'),
    'model.rope_theta': (but(LLAMA, model__initializer_range=0.5), 10.0, 'first_loss'),
    'model.rope_scaling': (but(LLAMA, model__initializer_range=0.5), {'type': 'linear', 'factor': 4.0}, 'first_loss'),
    'model.rope_parameters': (but(LLAMA, model__initializer_range=0.5), {'rope_type': 'default', 'rope_theta': 10.0},
                              'first_loss'),
    'model.use_sliding_window': (QWEN, False, 'losses'),
    'model.max_window_layers': (QWEN, 0, 'losses'),
    'model.layer_types': (QWEN, ['sliding_attention', 'sliding_attention'], 'losses'),
    'training.train_iters': (JOB, 4, 'steps'),
    'training.train_samples': (but(NO_LENGTH, training__train_samples=24), 12, 'steps'),
    'training.num_epochs': (but(NO_LENGTH, training__num_epochs=0.01), 0.005, 'steps'),
    'training.seq_length': (JOB, 8, 'tokens_per_step'),
    'training.seed': (JOB, 5, 'first_loss'),
    'training.eval_interval': (JOB, 2, 'evaluations'),
    'training.eval_iters': (JOB, 3, 'evaluations'),
    'training.no_decay_norms_and_biases': (but(JOB, optimizer__params__weight_decay=10), True, 'losses'),
    'training.target_loss': (JOB, 100.0, 'steps'),
    'training.patience': (CONSTANT, 2, 'steps'),
    'training.deterministic': (JOB, True, 'log_header'),
    'training.ema_decay': (JOB, 0.9, 'memory_table'),
    'training.lr_schedule.type': (JOB, 'cosine', 'learning_rates'),
    'training.lr_schedule.warmup_iters': (WSD, 3, 'learning_rates'),
    'training.lr_schedule.decay_iters': (WSD, 4, 'learning_rates'),
    'training.lr_schedule.min_lr': (WSD, 5e-3, 'learning_rates'),
    'training.lr_schedule.decay_style': (WSD, 'minus_sqrt', 'learning_rates'),
    'training.log_interval': (JOB, 3, 'console_steps'),
    'data.train_data_path': (JOB, 'other', 'first_loss'),
    'data.valid_data_path': (but(JOB, data={'train_data_path': 'data', 'valid_data_path': 'data'}), 'other', 'evaluations'),
    'data.valid_fraction': (JOB, 0.3, 'evaluations'),
    'data.split': (but(JOB, data__valid_fraction=None, data__split='90,10'), '60,40', 'evaluations'),
    'data.seed': (JOB, 5, 'samples'),
    'data.shuffle': (JOB, False, 'samples'),
    'data.separate_documents': (but(JOB, data__end_of_text=32), True, 'first_loss'),
    'data.end_of_text': (but(JOB, data__separate_documents=True), 32, 'first_loss'),
    'data.token_dtype': (RAW, 'uint32', 'first_loss'),
    'tokenizer.type': (JOB, 'bpe', 'refusal'),
    'tokenizer.path': (JOB, 'tokenizer', 'refusal'),  # another one than the data's
    'parallelism.data_parallel_size': (JOB, 2, 'refusal'),
    'parallelism.tensor_parallel_size': (JOB, 2, 'refusal'),
    'parallelism.pipeline_parallel_size': (JOB, 2, 'refusal'),
    'parallelism.context_parallel_size': (JOB, 2, 'refusal'),
    'parallelism.sequence_parallel': (but(JOB, parallelism={'tensor_parallel_size': 2}), True, 'memory_of_two'),
    'parallelism.pipeline_schedule': (PIPELINE, 'gpipe', 'stages_of_two'),
    'parallelism.pipeline_layer_split': (PIPELINE, [1, 1], 'stages_of_two'),
    'parallelism.virtual_pipeline_stages': (INTERLEAVED, 3, 'stages_of_two'),
    'communication_data_type': (JOB, 'bf16', 'memory_of_two'),
    'distributed.backend': (JOB, 'gloo', 'meeting'),
    'distributed.interface': (JOB, 'no-such-0', 'refusal'),
    'distributed.timeout_minutes': (JOB, 0.1, 'ends_a_frozen_run'),
    'hardware.device': (JOB, 'cuda', 'refusal'),
    'hardware.threads': (JOB, 2, 'layout'),
    'hardware.oversubscribe': (JOB, True, 'gpus_wanted_for_two'),
    'checkpoint.save_interval': (JOB, 2, 'checkpoints'),
    'checkpoint.keep_last_n': (SAVING, 1, 'checkpoints'),
    'checkpoint.keep_best': (CONSTANT, True, 'checkpoints'),
    'checkpoint.async_save': (JOB, False, 'memory_table'),
    'checkpoint.copy_to': (JOB, 'copy', 'copied_checkpoints'),
    'zero_optimization.stage': (JOB, 3, 'memory_table'),
    'zero_optimization.reduce_bucket_size': (zero(2), 1, 'memory_table'),
    'zero_optimization.allgather_bucket_size': (zero(2), 1, 'memory_table'),
    'zero_optimization.stage3_prefetch_bucket_size': (zero(3), 0, 'memory_table'),
    'zero_optimization.stage3_max_live_parameters': (zero(3), 1, 'memory_table'),
}
# In cuda_test.py and zero_test.py.
ON_A_GPU = ['hardware.cuda_graphs', 'hardware.cudnn', 'hardware.cudnn_deterministic', 'zero_optimization.cpu_offload', 'zero_optimization.cpu_offload_param',
            'zero_optimization.offload_optimizer.device', 'zero_optimization.offload_param.device']

# In pushed_test.py.
ON_HOSTS = ['distributed.push_data']


class Effects:
    """The visible results of one job; each is computed when it is needed."""

    def __init__(self, folder, name, config):
        self.folder, self.run, self.file, self.config = folder, folder / name, name + '.json', config
        self.write(config)

    def write(self, config):
        (self.folder / self.file).write_text(json.dumps(config))

    def call(self, *args):
        done = subprocess.run([job.PROGRAM, '--config', self.file, *args], cwd=self.folder, text=True, timeout=600,
                              capture_output=True)
        return done.returncode, done.stdout, done.stderr

    def trained(self, *statuses):
        if not self.run.exists():
            self.status, _, self.console = self.call('--run_dir', str(self.run))
            if self.status not in (0, *statuses):
                raise AssertionError(f'{self.file}: exit status {self.status}\n{self.console}')
        return self

    def column(self, name):
        lines = (self.trained().run / 'metrics.jsonl').read_text().splitlines()
        return [json.loads(line).get(name) for line in lines]

    def plan(self, begin, end):
        """The part of --dry_run's output from one word to another."""
        status, out, err = self.call('--dry_run')
        if status != 0:
            raise AssertionError(err)
        return re.search(rf'^{begin}.*?(?=^{end}|\Z)', out, re.M | re.S).group()

    def newest(self, name):
        path = max((self.trained().run / 'checkpoints').glob('step_*')) / name
        return path.read_text() if path.exists() else None

    def ends_a_frozen_run(self):
        if 'distributed' not in self.config:
            return False  # the default is ten minutes
        self.write(but(self.config, training__train_iters=1_000_000))
        launcher = subprocess.Popen([job.PROGRAM, '--config', self.file, '--run_dir', str(self.run)], cwd=self.folder,
                                 text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        job.wait_for(lambda: (self.run / 'metrics.jsonl').exists(), launcher)
        os.kill(job.workers_of(launcher)[0], signal.SIGSTOP)
        launcher.communicate(timeout=600)
        return launcher.returncode in (5, 6)

    def meeting(self):
        """The communication backend of two workers."""
        status, _, err = self.call('--run_dir', str(self.run) + '_of_two', '--num_workers', '2', '--steps', '1')
        if status != 0:
            raise AssertionError(err)
        log = pathlib.Path(str(self.run) + '_of_two') / 'logs/rank_1.log'
        return re.search(r' communication backend: (.*)$', log.read_text(), re.M).group(1)

    def log_header(self):
        return re.sub('^\\S+|pid [0-9]+', '', (self.trained().run / 'logs/rank_0.log').read_text().splitlines()[0])
    def gpus_wanted_for_two(self):
        return self.call('--run_dir', str(self.run), '--num_gpus', '2')[2]

    def exit_status(self): return self.trained(5).status
    def losses(self): return self.column('loss')[1:]
    def first_loss(self): return self.column('loss')[0]
    def loss_scales(self): return self.column('loss_scale')
    def learning_rates(self): return self.column('lr')
    def steps(self): return self.column('step')
    def tokens_per_step(self): return self.column('tokens')
    def evaluations(self): return self.column('eval_loss')
    def console_steps(self): return re.findall(r'^step +(\d+)/', self.trained().console, re.M)
    def samples(self): return re.findall(r'samples \[[\d,]*\]', (self.trained().run / 'logs/rank_0.log').read_text())
    def checkpoints(self): return sorted(p.name for p in (self.trained().run / 'checkpoints').glob('step_*'))
    def copied_checkpoints(self): return self.trained() and sorted(p.name for p in (self.folder / 'copy/checkpoints').glob('step_*'))
    def checkpoint_config(self): return self.newest('config.json')
    def batch_arithmetic(self): return self.plan('batch', 'steps')
    def layout(self): return self.plan('layout', 'batch')
    def parameters(self): return self.plan('parameters', 'memory')
    def memory_table(self): return self.plan('memory', 'NOTHING')
    def stages_of_two(self): return re.search('^pipeline .*', self.call('--dry_run', '--num_workers', '2')[1], re.M).group()
    def memory_of_two(self): return re.search('^memory .*', self.call('--dry_run', '--num_workers', '2')[1], re.M).group()
    def refusal(self): return not self.run.exists() and self.call('--run_dir', str(self.run))[0] in (2, 3)


def used_keys(schema, prefix=''):
    for part in schema.get('anyOf', [schema])[:1]:
        for name, below in part.get('properties', {}).items():
            if below.get('x-class') == 'used' and not below.get('deprecated'):
                yield prefix + name
            else:
                yield from used_keys(below, prefix + name + '.') if not below.get('deprecated') else ()


class EffectsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = RunFolder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        run = lambda *args: subprocess.run([job.PROGRAM, *args], cwd=cls.folder, check=True, capture_output=True)
        (cls.folder / 'text.txt').write_text(job.text()[:20000])
        (cls.folder / 'other.txt').write_text(job.text()[:20000][::-1].upper())
        for name, text in ('data', 'text.txt'), ('other', 'other.txt'):
            run('data', 'prepare', '--input', text, '--out', name)
        (cls.folder / 'raw.bin').write_bytes(array.array('I', [n * n % 250 for n in range(20000)]).tobytes())
        for name, base in ('gpt2', JOB), ('llama', LLAMA):
            (cls.folder / (name + '.json')).write_text(json.dumps(base['model'] | {'vocab_size': 257}))
        fixtures = pathlib.Path(__file__).parents[1] / 'fixtures/tokenizers'
        (cls.folder / 'tokenizer').mkdir()
        shutil.copy(fixtures / 'gpt2.json', cls.folder / 'tokenizer/tokenizer.json')
        cls.seen = {}
        trained = cls.effects(JOB).trained()
        os.symlink(max((trained.run / 'checkpoints').glob('step_*')), cls.folder / 'trained')

    @classmethod
    def effects(cls, config):
        """Rows with the same job share one run."""
        key = json.dumps(config, sort_keys=True)
        if key not in cls.seen:
            cls.seen[key] = Effects(cls.folder, f'run{len(cls.seen)}', config)
        return cls.seen[key]

    def test_every_used_key_has_a_row(self):
        schema = json.loads(subprocess.run([job.PROGRAM, 'config', 'schema'], check=True, capture_output=True).stdout)
        keys, rows = set(used_keys(schema)), {*ROWS, *ON_A_GPU, *ON_HOSTS}
        self.assertEqual(keys - rows, set(), 'no row for these keys')
        self.assertEqual(rows - keys, set(), 'rows of keys that do not exist')


def row_test(key, base, value, effect):
    def test(self):
        changed = copy.deepcopy(base)
        set_key(changed, key, value)
        before, after = (getattr(self.effects(config), effect)() for config in (base, changed))
        self.assertNotEqual(before, after, f'{key} = {value} does not show in {effect}')
    return test


for row, (base, value, effect) in ROWS.items():
    setattr(EffectsTest, 'test_' + row.replace('.', '_'), row_test(row, base, value, effect))

if __name__ == '__main__':
    unittest.main(verbosity=2)
