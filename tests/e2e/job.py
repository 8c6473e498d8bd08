"""A small training job, driven through the built hgtrain."""
import json
import pathlib
import re
import subprocess
import time

CONFIG = {
    'train_batch_size': 8,
    'train_micro_batch_size_per_gpu': 1,
    'gradient_clipping': 1.0,
    'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-3, 'weight_decay': 0.1}},
    'scheduler': {'type': 'WarmupLR', 'params': {'warmup_num_steps': 5}},
    'model': {'model_type': 'gpt2', 'n_embd': 32, 'n_layer': 2, 'n_head': 2, 'n_positions': 32},
    'training': {'train_iters': 20, 'seq_length': 32, 'seed': 7, 'eval_interval': 5, 'eval_iters': 2},
    'data': {'train_data_path': 'data', 'valid_fraction': 0.1},
    'checkpoint': {'save_interval': 5},
    'hardware': {'threads': 1},
}


def text():
    """Some thousand words in a fixed order with a structure to learn."""
    words = 'the quick brown fox jumps over a lazy dog while seven small birds sing in an old tree'.split()
    return '\n'.join(' '.join(words[(i * i + 3 * j) % len(words)] for j in range(12)) for i in range(1500))


class Job:
    """A folder with data and a config; each run gets a run folder in it."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = pathlib.Path(folder)
        (self.folder / 'text.txt').write_text(text())
        self.call('data', 'prepare', '--input', 'text.txt', '--out', 'data')
        (self.folder / 'config.json').write_text(json.dumps(CONFIG))

    def start(self, *args):
        return subprocess.Popen([self.program, *map(str, args)], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, *args, exit_code=0):
        """Runs hgtrain to its end; what it printed."""
        process = self.start(*args)
        out, err = process.communicate(timeout=120)
        if process.returncode != exit_code:
            raise AssertionError(f'exit status {process.returncode}, not {exit_code}: {args}\n{out}\n{err}')
        return out + err

    def train(self, run, *args, exit_code=0, workers=2):
        return self.call(*self.arguments(run, workers), *args, exit_code=exit_code)

    def start_training(self, run, *args, workers=2):
        return self.start(*self.arguments(run, workers), *args)

    def arguments(self, run, workers):
        return ('--config', 'config.json', '--run_dir', run, '--device', 'cpu', '--num_workers', workers)

    def metrics(self, run):
        """The whole lines of metrics.jsonl so far."""
        path = self.folder / run / 'metrics.jsonl'
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith('\n')]

    def losses(self, run):
        return [(m['step'], m['loss'], m.get('eval_loss')) for m in self.metrics(run)]

    def verdict(self, run):
        return json.loads((self.folder / run / 'run.json').read_text())

    def wait_for_step(self, run, step, process):
        """Returns once `step` is in the metrics."""
        deadline = time.monotonic() + 60
        while not any(m['step'] >= step for m in self.metrics(run)):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f'step {step} never came: {process.communicate()}')
            time.sleep(0.01)

    def taken(self, run, rank):
        """step -> (samples, reduced bytes) from a rank's log."""
        log = (self.folder / run / 'logs' / f'rank_{rank}.log').read_text()
        return {int(s): ([int(x) for x in samples.split(',') if x], int(reduced)) for s, samples, reduced in
                re.findall(r'^step (\d+) samples \[([\d,]*)\] reduced_bytes (\d+)$', log, re.M)}

    def checkpoints(self, run):
        return sorted(p.name for p in (self.folder / run / 'checkpoints').glob('step_????????'))
