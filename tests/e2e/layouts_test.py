#!/usr/bin/env python3
"""Layouts of up to eight workers in which every two settings occur together, if they can: the numbers of one worker.
usage: layouts_test.py HGTRAIN"""
import itertools
import random
import unittest

import job

COMMON = ('--model.n_layer', 4, '--model.num_attention_heads', 4, '--gradient_clipping', 0.1)
MODELS = {  # with the keys of dropout that the family has
    'gpt2': ((), ('resid_pdrop', 'attn_pdrop', 'embd_pdrop')),
    'gpt2 untied': (('--model.tie_word_embeddings', 'false'), ('resid_pdrop', 'attn_pdrop', 'embd_pdrop')),
    'llama': (('--model.model_type', 'llama', '--model.intermediate_size', 64, '--model.num_key_value_heads', 2, '--model.tie_word_embeddings', 'false'), ('attention_dropout',)),
    'mistral': (('--model.model_type', 'mistral', '--model.intermediate_size', 64, '--model.num_key_value_heads', 1, '--model.sliding_window', 12), ('attention_dropout',)),
    'qwen2': (('--model.model_type', 'qwen2', '--model.intermediate_size', 64, '--model.num_key_value_heads', 2), ('attention_dropout',)),
    'qwen3': (('--model.model_type', 'qwen3', '--model.intermediate_size', 64, '--model.num_key_value_heads', 2, '--model.head_dim', 8), ('attention_dropout',)),
}
FACTORS = {
    'data_parallel_size': (1, 2, 4, 8),
    'tensor_parallel_size': (1, 2, 4),
    'context_parallel_size': (1, 2, 4),
    'pipeline_parallel_size': (1, 2, 4),
    'sequence_parallel': ('false', 'true'),
    'pipeline_schedule': ('1f1b', 'gpipe', 'zb_h1', 'interleaved'),
    'zero': (0, 1, 2, 3),
    'recompute': ('none', 'selective', 'full'),
    'micro_batch': (1, 2),
    'dropout': (False, True),
    'model': tuple(MODELS),
}
SIZES = [name for name in FACTORS if name.endswith('_size')]


def workers_of(layout):
    workers = 1
    for name in SIZES:
        workers *= layout[name]
    return workers


def is_sound(layout):
    stages = layout['pipeline_parallel_size']
    return (2 <= workers_of(layout) <= 8
            and layout['data_parallel_size'] * layout['micro_batch'] <= job.CONFIG['train_batch_size']
            and (stages == 1 or layout['zero'] < 2)
            and (stages > 1 or layout['pipeline_schedule'] == '1f1b')
            and (stages < 4 or layout['pipeline_schedule'] != 'interleaved')  # eight parts of four layers
            and (layout['tensor_parallel_size'] > 1 or layout['sequence_parallel'] == 'false'))


def pairs_of(layout):
    return set(itertools.combinations(layout.items(), 2))


def covering_layouts():
    """A list in which each pair of settings occurs that any sound layout has. The same in every run."""
    draw = random.Random(17)
    some = [layout for layout in ({name: draw.choice(values) for name, values in FACTORS.items()} for _ in range(40_000)) if is_sound(layout)]
    pairs = [pairs_of(layout) for layout in some]
    left = set().union(*pairs)
    chosen = []
    while left:
        best = max(range(len(some)), key=lambda i: len(pairs[i] & left))
        chosen.append(some[best])
        left -= pairs[best]
    return chosen


def flags_of(layout):
    model, dropout = MODELS[layout['model']]
    flags = [*COMMON, *model]
    for key in dropout:
        flags += [f'--model.{key}', 0.1 if layout['dropout'] else 0]
    return flags


class LayoutsTest(job.JobTest):
    def test_the_numbers_are_those_of_one_worker(self):
        for layout in covering_layouts():
            one = f'{layout["model"]}, dropout {layout["dropout"]}'
            if not (self.job.folder / one).exists():
                self.job.train(one, *flags_of(layout), workers=1)
            flags = flags_of(layout) + ['--zero_optimization.stage', layout['zero'], '--activation_checkpointing.mode', layout['recompute'],
                                        '--train_micro_batch_size_per_gpu', layout['micro_batch']]
            for name, value in layout.items():
                if name in SIZES or name.startswith(('sequence', 'pipeline')):
                    flags += [f'--parallelism.{name}', value]
            if layout['pipeline_schedule'] == 'interleaved':
                flags += ['--parallelism.virtual_pipeline_stages', 2]
            with self.subTest(**layout):
                run = ' '.join(str(value) for value in layout.values())
                self.job.train(run, *flags, workers=workers_of(layout))
                self.assert_close(run, one)

    def test_what_is_sent_is_what_the_docs_say(self):
        """docs/splitting.md, with fp32 values; embedding and head, and what ranks agree on in a step, count for little in its examples."""
        layers, width, tokens, micros = 4, 64, 32, 8
        wide = [11008 if flag == 64 else flag for flag in MODELS['llama'][0]]  # so that embedding and head count for little
        model = (*COMMON, *wide, '--model.n_embd', width, '--steps', 1)
        activations = tokens * width * 4

        def sent(name, workers, *flags):
            self.job.train(f'sent {name}', *model, *flags, workers=workers)
            return self.job.metrics(f'sent {name}')[0]['sent_bytes']

        def axis(name, size):
            return f'--parallelism.{name}_parallel_size', size

        pipeline = axis('pipeline', 2)
        interleaved = (*pipeline, '--parallelism.pipeline_schedule', 'interleaved', '--parallelism.virtual_pipeline_stages', 2)
        rows, full = ('--parallelism.sequence_parallel', 'true'), ('--activation_checkpointing.mode', 'full')
        by_data_parallelism = sent('data', 2)
        _, parameters = self.job.taken('sent data', 0)[1]  # in bytes
        self.assertAlmostEqual(by_data_parallelism / parameters, 1, delta=0.1)
        keys_values = activations  # two of four heads have them
        for name, expected, flags in (
                ('zero1', parameters / 2 + parameters / 2, ('--zero_optimization.stage', 1)),
                ('zero2', parameters / 2 * micros / 2 + parameters / 2, ('--zero_optimization.stage', 2)),
                ('tensor', activations * (4 * layers + 2) * micros, axis('tensor', 2)),
                ('tensor, full', activations * (5 * layers + 2) * micros, (*axis('tensor', 2), *full)),
                ('rows', activations / 2 * (10 * layers + 3) * micros, (*axis('tensor', 2), *rows)),
                ('rows, full', activations / 2 * (13 * layers + 3) * micros, (*axis('tensor', 2), *rows, *full)),
                ('context', 3 / 2 * keys_values * layers * micros + parameters, axis('context', 2)),
                ('context, full', 3 / 2 * keys_values * layers * micros + parameters, (*axis('context', 2), *full)),
                ('pipeline', activations * micros, pipeline),
                ('interleaved', 3 * activations * micros, interleaved)):
            self.assertAlmostEqual(sent(name, 2, *flags) / expected, 1, delta=0.1, msg=name)


if __name__ == '__main__':
    unittest.main()
