#!/usr/bin/env python3
"""Context parallelism with the built program: the same numbers and checkpoints as one worker, and refusals.
usage: context_test.py HGTRAIN"""
import unittest

import job

# The norm is clipped from the first step on.
MODEL = ('--model.n_head', 4, '--model.resid_pdrop', 0.1, '--model.attn_pdrop', 0.1, '--gradient_clipping', 0.1)
MISTRAL = ('--model.model_type', 'mistral', '--model.intermediate_size', 64, '--model.num_attention_heads', 4, '--model.num_key_value_heads', 2,
           '--model.sliding_window', 9, '--model.tie_word_embeddings', 'false', '--gradient_clipping', 0.1)
PACKED = ('--data.separate_documents', 'true', '--data.end_of_text', 32)


def context(number, *flags):
    return ('--parallelism.context_parallel_size', number, *flags)


class ContextTest(job.JobTest):
    def test_every_layout_gives_the_numbers_of_one_worker(self):
        self.assert_layouts_close('gpt2', MODEL, ((context(4), 4), (context(2, '--zero_optimization.stage', 3), 4),
                                                  (context(2, '--parallelism.tensor_parallel_size', 2), 4),
                                                  (context(2, '--parallelism.pipeline_parallel_size', 2), 4)))
        self.assert_layouts_close('packed', (*MISTRAL, *PACKED, '--activation_checkpointing.mode', 'full'),
                                  ((context(2, '--training.ema_decay', 0.9), 4),))

    def test_a_checkpoint_of_any_layout_resumes_in_any_other(self):
        self.assert_each_resumes_in_the_next(MODEL, ((context(2), 2), ((), 1), (context(2, '--zero_optimization.stage', 1), 4)))

    def test_sizes_that_do_not_fit_are_refused(self):
        for size, workers, text in ((2, 3, 'start a multiple of 2 workers'), (3, 3, 'set training.seq_length = 30')):
            self.assertIn(text, self.job.train('refused', *MODEL, *context(size), workers=workers, exit_code=2))


if __name__ == '__main__':
    unittest.main()
