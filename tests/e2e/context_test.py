#!/usr/bin/env python3
"""Context parallelism with the built program: the same numbers and checkpoints as one worker, and refusals.
usage: context_test.py HGTRAIN"""
import unittest

import job

# The norm is clipped from the first step on.
MODEL = ('--model.n_head', 4, '--model.resid_pdrop', 0.1, '--model.attn_pdrop', 0.1, '--gradient_clipping', 0.1)
MISTRAL = ('--model.model_type', 'mistral', '--model.num_attention_heads', 4, '--model.num_key_value_heads', 2,
           '--model.sliding_window', 9, '--model.tie_word_embeddings', 'false', '--gradient_clipping', 0.1)
PACKED = ('--data.separate_documents', 'true', '--data.end_of_text', 32)


def context(number, *flags):
    return ('--parallelism.context_parallel_size', number, *flags)


class ContextTest(job.JobTest):
    def test_every_layout_gives_the_numbers_of_one_worker(self):
        for name, model, layouts in (
                ('gpt2', MODEL, ((4, 4, ()), (2, 4, ('--zero_optimization.stage', 3)), (2, 4, ('--parallelism.tensor_parallel_size', 2)),
                                 (2, 4, ('--parallelism.pipeline_parallel_size', 2)))),
                ('packed', (*MISTRAL, *PACKED, '--activation_checkpointing.mode', 'full'), ((2, 4, ('--training.ema_decay', 0.9)),))):
            self.job.train(name, *model, workers=1)
            for size, workers, flags in layouts:
                run = f'{name} {size} of {workers} {flags}'.replace('/', '')
                self.job.train(run, *model, *context(size, *flags), workers=workers)
                self.assert_close(run, name)

    def test_a_checkpoint_of_any_layout_resumes_in_any_other(self):
        self.job.train('unbroken', *MODEL, workers=1)
        layouts = (('context', context(2), 2), ('one', (), 1), ('both', context(2, '--zero_optimization.stage', 1), 4))
        for (name, flags, workers), (_, other, other_workers) in zip(layouts, layouts[1:] + layouts[:1], strict=True):
            run = f'from {name}'
            self.job.train(run, *MODEL, *flags, '--steps', 10, workers=workers)
            self.job.train(run, *MODEL, *other, '--resume', 'auto', workers=other_workers)
            self.assert_close(run, 'unbroken')

    def test_sizes_that_do_not_fit_are_refused(self):
        for size, workers, text in ((2, 3, 'start a multiple of 2 workers'), (3, 3, 'the nearest lengths that fit are 30 and 36')):
            self.assertIn(text, self.job.train('refused', *MODEL, *context(size), workers=workers, exit_code=2))


if __name__ == '__main__':
    unittest.main()
