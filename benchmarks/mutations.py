"""Breaks the package on purpose, one line at a time, and prints whether the tests notice.

    python benchmarks/mutations.py               every mutation, some minutes
    python benchmarks/mutations.py schedule ema  those whose description has one of these words

Each mutation replaces a text that must occur exactly once in its file, in a copy of the checkout,
and runs a few tests there. They are first run on the copy as it is, where all must pass. A mutation
is *caught* if a test fails and *survived* if all pass; an *error* is a text that is no longer
found, or tests that could not be run.

The table stands in docs/correctness.md, which tests/test_docs.py compares with the list below.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]
COPIED = ("molsepnorm", "tests", "configs", "data", "pyproject.toml", "README.md")


class Mutation(NamedTuple):
    """One line broken."""

    what: str
    """What it breaks, for a person."""
    file: str
    """Within the package."""
    old: str
    new: str
    tests: tuple[str, ...]
    """One of these is expected to fail."""


def tests(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{file}::{name}" for name in names)


SEARCH = "molecules/encodings/test_search.py"
ZINC = "molecules/featurize/test_zinc.py"
GRAPHORMER = "nn/test_graphormer.py"
ATTENTION = "nn/test_attention.py"
SEPNORM = "sepnorm/test_sepnorm.py"
CLAIMS = "test_claims_training.py"
SCORING = "tasks/metrics/test_scoring.py"
SPLITS = "data/datasets/test_splits.py"
SLOW_SEARCH = tests(SEARCH, "test_fast_search_equals_the_definition")
SLOW_NETWORK = tests(GRAPHORMER, "test_equals_an_independent_forward_pass")
SLOW_BATCH = tests("data/batching/test_collate.py", "test_a_batch_equals_one_built_slot_by_slot")
SLOW_BIAS = tests(
    "nn/pairs/test_bias.py",
    "test_bias_equals_the_formula_for_every_pair",
    "test_bias_equals_the_formula_for_random_graphs",
)
SLOW_LOSS = tests("tasks/test_tasks.py", "test_loss_equals_a_plain_loop")
RESUME = tests("training/test_loop.py", "test_a_stopped_run_goes_on_as_if_it_had_not")
SAME_STEPS = tests("training/test_step.py", "test_recorded_steps_are_the_same_steps")
UNNOTICED = tests("training/test_capture.py", "test_later_steps_know_nothing_of_it")
FUSED = tests("nn/kernels/test_fused_attention.py", "test_fused_attention_equals_the_formula")
TORCHRUN = tests("training/test_torchrun.py", "test_two_processes_train_as_one")
SLOW_EMA = tests("training/test_optim.py", "test_the_average_is_a_plain_loop")
WARMUP = tests("training/test_optim.py", "test_it_warms_up_in_equal_steps_and_then_falls_in_a_line")
SPELLINGS = tests("molecules/featurize/test_smiles.py", "test_every_spelling_gives_the_same_graph")
ONE_PASS = tests(CLAIMS, "test_an_epochs_loss_and_scores_are_those_of_one_pass")
WHOLE = tests("nn/test_ingredients.py", "test_equals_an_independent_forward_pass")
LOCAL = tests("nn/test_local.py", "test_gine_equals_that_of_pytorch_geometric")
BONDS = tests("nn/pairs/test_neighbours.py", "test_tables_list_every_bond_at_both_ends")
WALKS = tests(
    "nn/pairs/test_features.py", "test_walk_probabilities_are_powers_of_the_transition_matrix"
)
READ_OUT = tests("nn/test_readout.py", "test_readout_equals_a_loop_over_molecules")
PAIRS = tests("nn/pairs/test_pair_attention.py", "test_attention_equals_a_loop_over_pairs")
DEPTH = tests("nn/test_ingredients.py", "test_stochastic_depth_drops_whole_graphs")

MUTATIONS = [
    # encodings
    Mutation(
        "distance: every path one bond too long",
        "molecules/encodings/paths.py",
        "enumerate(levels, start=1)",
        "enumerate(levels, start=2)",
        SLOW_SEARCH,
    ),
    Mutation(
        "distance: the largest one is never reached",
        "molecules/encodings/search.py",
        "if depth <= max_distance:",
        "if depth < max_distance:",
        SLOW_SEARCH,
    ),
    Mutation(
        "tie-break: the largest bond sequence, not the smallest",
        "molecules/encodings/search.py",
        "key[rivals] < key[owner[pair[rivals]]]",
        "key[rivals] > key[owner[pair[rivals]]]",
        SLOW_SEARCH,
    ),
    Mutation(
        "path: one bond too few is told apart",
        "molecules/encodings/search.py",
        "labelled = depth <= max_path_length",
        "labelled = depth < max_path_length",
        SLOW_SEARCH,
    ),
    Mutation(
        "path: compared by its last bond first",
        "molecules/encodings/search.py",
        "rank += bonds.labels.take(last_bond)",
        "rank = rank // bonds.num_labels + bonds.labels.take(last_bond) * (rank.max() + 1)",
        SLOW_SEARCH,
    ),
    Mutation(
        "degree: clipped one too early",
        "molecules/encodings/encode.py",
        "np.minimum(bonds_of_atoms, spec.max_degree)",
        "np.minimum(bonds_of_atoms, spec.max_degree - 1)",
        tests(
            "molecules/encodings/test_encode.py", "test_degrees_count_neighbours_up_to_the_largest"
        ),
    ),
    # featuriser, store, batches
    Mutation(
        "ZINC's pickles: whatever they call is found",
        "data/datasets/pickles.py",
        "if (module, name) not in _ADMITTED:",
        "if (module, name) not in _ADMITTED:\n            return super().find_class(module, name)\n"
        "        if False:",
        tests(
            "data/datasets/test_pickles.py", "test_a_malicious_file_in_a_data_folder_runs_nothing"
        ),
    ),
    Mutation(
        "texts that are too large reach RDKit",
        "molecules/featurize/smiles.py",
        "if reason := excess(text):",
        "if reason := None:",
        tests(
            "molecules/featurize/test_smiles.py",
            "test_what_is_too_large_is_refused_before_rdkit_reads_it",
        ),
    ),
    Mutation(
        "Kekulé structure: skipped",
        "molecules/featurize/zinc.py",
        "Chem.Kekulize(mol, True)",
        "pass",
        tests("molecules/featurize/test_zinc.py", "test_bonds_are_kekulised"),
    ),
    Mutation(
        "ZINC's features: a mark on a carbon that is no stereocentre counts",
        "molecules/featurize/zinc.py",
        "marked = _MARKED in labels",
        "marked = False",
        tests(ZINC, "test_what_the_text_does_not_tell_is_left_to_the_canonical_form"),
    ),
    Mutation(
        "canonical form: skipped",
        "molecules/featurize/zinc.py",
        "text = canonical_smiles(smiles)",
        "text = Chem.MolToSmiles(Chem.MolFromSmiles(smiles), canonical=False)",
        tests(
            ZINC,
            "test_real_molecules_in_any_spelling",
            "test_the_slow_rule_on_real_molecules",
            "test_what_the_text_does_not_tell_is_left_to_the_canonical_form",
        ),
    ),
    Mutation(
        "store: provisional path codes not mapped to final ones",
        "data/store.py",
        "codes.take(np.frombuffer(chunk, dtype=np.int32)).data",
        "np.frombuffer(chunk, dtype=np.int32).astype(codes.dtype).data",
        tests("data/test_store.py", "test_what_was_written_is_read"),
    ),
    Mutation(
        "store: a digest that differs is passed over",
        "files/digests.py",
        "if digest.hexdigest() != expected:",
        "if False:",
        tests("data/test_store.py", "test_a_changed_byte_is_noticed_wherever_it_is")
        + tests("training/test_checkpoint.py", "test_a_changed_byte_is_noticed_wherever_it_is"),
    ),
    Mutation(
        "model folder: the weights' digest is not compared",
        "model.py",
        "if KEY in about and hashlib",
        "if KEY not in about and hashlib",
        tests("test_model.py", "test_other_weights_of_the_same_shapes_are_refused"),
    ),
    Mutation(
        "model folder: it replaces a folder of other files",
        "model.py",
        "        others = sorted({path.name for path in folder.iterdir()} - _OWN_FILES)",
        "        others: list[str] = []",
        tests("test_model.py", "test_a_folder_of_other_files_is_never_replaced"),
    ),
    Mutation(
        "settings: of a name that is given twice the last value wins",
        "training/settings.py",
        "if (key.tag, str(key.value)) in seen:",
        "if False:",
        tests("training/test_settings.py", "test_hostile_texts_are_refused_in_one_line"),
    ),
    Mutation(
        "files: a living writer's file is taken for a leftover",
        "files/writing.py",
        "flock(file, LOCK_EX | LOCK_NB)",
        "pass",
        tests("files/test_writing.py", "test_what_a_living_writer_writes_is_left_alone"),
    ),
    Mutation(
        "resume: the history stays as it is",
        "training/loop.py",
        "self.folder.restore_history(history)",
        "self.folder.restore_history(None)",
        tests("training/test_folder.py", "test_a_resumed_run_has_all_its_history"),
    ),
    Mutation(
        "resume: the number of steps is believed",
        "training/loop.py",
        "progress.step != (",
        "None is (",
        tests("training/test_loop.py", "test_counters_that_do_not_fit_the_run_are_refused"),
    ),
    Mutation(
        "store: a path that is not there is believed",
        "molecules/encodings/sound.py",
        "pairs.max(initial=0) >= len(graphs.paths)",
        "False",
        tests("data/datasets/test_cached.py", "test_a_store_that_is_not_sound_is_made_anew"),
    ),
    Mutation(
        "train: the folder is not locked",
        "training/run.py",
        "held.enter_context(locked(run.path))",
        "None",
        tests("training/test_lock.py", "test_a_training_that_is_under_way_holds_its_folder"),
    ),
    Mutation(
        "batch: paths transposed, from j to i",
        "data/batching/collate.py",
        "codes = self.pairs[torch.where(both, row + index, 0)]",
        "codes = self.pairs[torch.where(both, row + index, 0)].transpose(1, 2)",
        SLOW_BATCH,
    ),
    Mutation(
        "batch: the mask takes slot 0, the graph token's, for an atom",
        "data/batching/collate.py",
        "real = (index >= 0) & (index < size)",
        "real = index < size",
        SLOW_BATCH,
    ),
    Mutation(
        "batch: the pairs with the graph token lose their bias in one direction",
        "data/batching/collate.py",
        "codes[:, :, 0].fill_(GRAPH_TOKEN)",
        "codes[:, :, 0].fill_(UNREACHABLE)",
        SLOW_BATCH,
    ),
    Mutation(
        "batch: padding is attended to",
        "data/batching/collate.py",
        "(index >= size)[:, None, :], PADDING",
        "(index >= size)[:, None, :], UNREACHABLE",
        SLOW_BATCH,
    ),
    Mutation(
        "batch: codes above 32,767 become negative",
        "data/batching/collate.py",
        "codes.long() & 0xFFFF",
        "codes.long()",
        tests("data/batching/test_collate.py", "test_codes_above_32767_keep_their_value"),
    ),
    Mutation(
        "batch: outputs in the order of blocks, not of the molecules",
        "data/batching/collate.py",
        "rank[order] = np.arange(len(order))",
        "rank[:] = np.arange(len(order))",
        SLOW_BATCH,
    ),
    Mutation(
        "epoch: the tail batch is dropped",
        "data/batching/bucketing.py",
        "np.array_split(rng.permutation(graphs), num_batches",
        "np.array_split(rng.permutation(graphs)[: len(graphs) // 2 * 2], num_batches",
        tests(
            "data/batching/test_bucketing.py",
            "test_an_epoch_is_every_molecule_once_in_batches_of_like_size",
        ),
    ),
    # the network
    Mutation(
        "bias: the graph token's and the unreachable one exchanged",
        "nn/pairs/bias.py",
        "[padding, self.graph_token, self.unreachable]",
        "[padding, self.unreachable, self.graph_token]",
        SLOW_BIAS,
    ),
    Mutation(
        "bias: 1/D instead of 1/D' beyond L bonds",
        "nn/pairs/bias.py",
        "/ paths.lengths[:, None]",
        "/ paths.distances.clamp(min=1)[:, None]",
        SLOW_BIAS,
    ),
    Mutation(
        "bias: the L-th bond left out",
        "molecules/encodings/paths.py",
        "if depth <= len(labelled):",
        "if depth < len(labelled):",
        SLOW_BIAS,
    ),
    Mutation(
        "bias: the bond's vector times the transposed weights",
        "nn/pairs/bias.py",
        '"lhk,ek->leh"',
        '"lkh,ek->leh"',
        SLOW_BIAS,
    ),
    Mutation(
        "embedding: no degree",
        "nn/embedding.py",
        " + F.embedding(batch.degrees, self.degrees)",
        "",
        tests("nn/test_embedding.py", "test_embedding_equals_a_loop_over_atoms"),
    ),
    Mutation(
        "attention: softmax scale 1/(C/H)",
        "nn/kernels/attention.py",
        "k, factor = k.transpose(1, 2), q.shape[-1] ** -0.5",
        "k, factor = k.transpose(1, 2), q.shape[-1] ** -1.0",
        tests(ATTENTION, "test_attention_equals_a_loop_over_graphs_and_heads"),
    ),
    Mutation(
        "attention: the gradient forgets the dropout mask",
        "nn/kernels/attention.py",
        "grad_gated.mul_(gated)",
        "grad_gated.mul_(weights)",
        tests(
            ATTENTION,
            "test_gradcheck",
            "test_attention_with_dropout_equals_the_loop_with_the_same_masks",
        ),
    ),
    Mutation(
        "attention: the gradient of the keys not scaled",
        "nn/kernels/attention.py",
        "(grad_logits.transpose(1, 2) @ q).mul_(factor)",
        "(grad_logits.transpose(1, 2) @ q)",
        tests(ATTENTION, "test_gradcheck"),
    ),
    Mutation(
        "attention: exponentials out of range are not noticed",
        "nn/kernels/attention.py",
        "if low >= _MIN_TOTAL and high <= _MAX_TOTAL:",
        "if True:",
        tests(ATTENTION, "test_a_constant_added_to_all_logits_changes_nothing"),
    ),
    Mutation(
        "attention: the tokens alone ask with the second slot",
        "nn/kernels/attention.py",
        "q = q[:, : at.num_queries]",
        "q = q[:, -at.num_queries :]",
        tests(ATTENTION, "test_queries_of_graph_tokens_give_the_first_rows_of_each_graph"),
    ),
    Mutation(
        "network: the last layer's tokens in the order of their slots",
        "nn/readout.py",
        "        return x.index_select(0, batch.order)",
        "        return x",
        tests(GRAPHORMER, "test_a_last_layer_for_graph_tokens_equals_a_full_layer"),
    ),
    Mutation(
        "block: feed-forward without its residual",
        "nn/layer.py",
        "        y = self.ffn_out(self.activation_dropout(F.gelu(self.ffn_in(h))))",
        "        y = self.ffn_out(self.activation_dropout(F.gelu(self.ffn_in(h)))) - x",
        SLOW_NETWORK,
    ),
    Mutation(
        "block: norms of attention and feed-forward exchanged",
        "nn/layer.py",
        "        h = self.ffn_norm(",
        "        h = self.attention_norm(",
        SLOW_NETWORK,
    ),
    Mutation(
        "dropout: survivors not scaled up",
        "nn/kernels/dropout.py",
        "return _VALUES / (_VALUES - self.dropped)",
        "return 1.0",
        tests("nn/kernels/test_dropout.py", "test_rate_and_expectation"),
    ),
    Mutation(
        "dropout: one of 256 values too many dropped",
        "nn/kernels/dropout.py",
        "values.clamp_(self.dropped - 1, self.dropped).sub_(self.dropped - 1)",
        "values.clamp_(self.dropped, self.dropped + 1).sub_(self.dropped)",
        tests("nn/kernels/test_dropout.py", "test_rate_and_expectation"),
    ),
    Mutation(
        "SepNorm: the graph token's statistics from other rows",
        "sepnorm/sepnorm.py",
        "self.tokens(x.index_select(0, graph_token)).to",
        "self.tokens(x).index_select(0, graph_token).to",
        tests(SEPNORM, "test_the_tokens_statistics_come_from_tokens_alone"),
    ),
    Mutation(
        "SepNorm: written into an identity's input",
        "sepnorm/sepnorm.py",
        "if type(self.tok_norm) in (nn.LayerNorm, nn.RMSNorm, MaskedBatchNorm1d):",
        "if True:",
        tests(SEPNORM, "test_an_identity_does_not_write_to_its_input"),
    ),
    Mutation(
        "SepNorm: torch's encoder reads the weights of a layer norm",
        "sepnorm/sepnorm.py",
        "class SepNorm(Unfused, nn.Module):",
        "class SepNorm(nn.Module):",
        tests("sepnorm/test_sepnorm_in_torch.py", "test_a_layer_evaluates_as_its_norms_do"),
    ),
    Mutation(
        "graphs: an atom feature beyond its size is taken",
        "molecules/encodings/encode.py",
        "        if (features.max(axis=0, initial=0) < sizes).all():\n",
        "        if True:\n",
        tests(
            "molecules/encodings/test_encode.py",
            "test_features_that_do_not_fit_are_told_with_the_molecule_s_number",
        ),
    ),
    Mutation(
        "predictions: an infinite output is a certain yes",
        "tasks/task.py",
        "values.masked_fill(~outputs.isfinite(), torch.nan).float()",
        "values.float()",
        tests(
            "predict/test_predict.py", "test_a_prediction_that_is_not_finite_is_an_error_of_its_row"
        ),
    ),
    Mutation(
        "scores: a target without finite predictions leaves the mean",
        "tasks/task.py",
        "            if not all(_all_finite(*both) for both in each.values()):\n",
        "            if False:\n",
        tests(
            "tasks/test_tasks.py",
            "test_a_target_whose_predictions_are_not_finite_does_not_leave_the_mean",
        ),
    ),
    Mutation(
        "masked batch norm: unbiased for biased variance",
        "sepnorm/kernels.py",
        "square_().mul_(share).sum(0)",
        "square_().mul_(share).sum(0) * count / (count - 1)",
        tests(SEPNORM, "test_equals_plain_loops_over_graphs_slots_and_channels"),
    ),
    Mutation(
        "masked batch norm: the gradient through the variance left out",
        "sepnorm/kernels.py",
        "along * scale.square())",
        "0 * along)",
        tests(SEPNORM, "test_masked_batch_norm_gradcheck"),
    ),
    Mutation(
        "masked batch norm: biased running variance",
        "sepnorm/batch_norm.py",
        "unbiased = variance * count / (count - 1).clamp(min=1)",
        "unbiased = variance",
        tests(SEPNORM, "test_batch_norm_of_tokens_counts_real_tokens_only"),
    ),
    Mutation(
        "masked batch norm: running mean moves nine tenths, not one",
        "sepnorm/batch_norm.py",
        "lerp_(mean.to(self.running_mean.dtype), rate)",
        "lerp_(mean.to(self.running_mean.dtype), 1 - rate)",
        tests(SEPNORM, "test_batch_norm_of_tokens_counts_real_tokens_only"),
    ),
    Mutation(
        "masked batch norm: padding counts",
        "sepnorm/batch_norm.py",
        "if mask is None else mask.reshape(-1, 1)",
        "",
        tests(SEPNORM, "test_padding_has_no_effect"),
    ),
    # what can be added to the network
    Mutation(
        "neighbours: the place of the reverse counted at the wrong end",
        "nn/pairs/neighbours.py",
        "bonded.cumsum(1)",
        "bonded.cumsum(2)",
        tests("nn/pairs/test_neighbours.py", "test_the_reverse_is_the_same_bond"),
    ),
    Mutation(
        "neighbours: the first bond label taken for none",
        "nn/pairs/neighbours.py",
        ".gather(-1, columns)] + 1",
        ".gather(-1, columns)]",
        BONDS,
    ),
    Mutation(
        "neighbours: as many places as the largest degree with an embedding",
        "molecules/encodings/encode.py",
        "max_bonds=int(bonds_of_atoms.max())",
        "max_bonds=min(spec.max_degree, int(bonds_of_atoms.max()))",
        BONDS,
    ),
    Mutation(
        "store: room for the bonds of the last molecules alone",
        "data/store.py",
        "max(self._max_bonds, graphs.max_bonds)",
        "graphs.max_bonds",
        tests("nn/pairs/test_neighbours.py", "test_the_width_of_the_tables_is_that_of_the_store"),
    ),
    Mutation(
        "GINE: a bond's gradient looked up at its own end",
        "nn/kernels/local.py",
        "ctx.reverse = neighbours.reverse",
        "ctx.reverse = neighbours.entries",
        LOCAL,
    ),
    Mutation(
        "GINE: ε left out",
        "nn/local.py",
        "x, 1 + self.epsilon)",
        "x, 1 + 0 * self.epsilon)",
        LOCAL,
    ),
    Mutation(
        "GINE: reads atoms before their norm",
        "nn/layer.py",
        "self.local(y, h,",
        "self.local(y, x,",
        WHOLE,
    ),
    Mutation(
        "walks: A D⁻¹ for D⁻¹ A",
        "nn/pairs/features.py",
        "bonded / bonded.sum(-1, keepdim=True)",
        "bonded / bonded.sum(-2, keepdim=True)",
        WALKS,
    ),
    Mutation(
        "RWSE: begins with no step, where every walk is at home",
        "nn/walks.py",
        "each[:, 1 : steps + 1]",
        "each[:, :steps]",
        tests("nn/test_walks.py", "test_walk_encoding_is_a_linear_map_of_return_probabilities"),
    ),
    Mutation(
        "RWSE: padding and graph tokens get an encoding",
        "nn/walks.py",
        "self.linear(returns * self.scale) * mask[:, None]",
        "self.linear(returns * self.scale)",
        tests("nn/test_walks.py", "test_walk_encoding_is_a_linear_map_of_return_probabilities"),
    ),
    Mutation(
        "RWSE: a network with a batch norm is converted without its shift",
        "nn/walks.py",
        "+ weight @ shift",
        "",
        tests("nn/test_walks.py", "test_weights_with_a_batch_norm_are_converted"),
    ),
    Mutation(
        "RRWP: the longest walks, not the shortest",
        "nn/pairs/encoding.py",
        "each[..., : self.steps + 1]",
        "each[..., -self.steps - 1 :]",
        WHOLE,
    ),
    Mutation(
        "resistances: J of all slots, not of each fragment",
        "nn/pairs/features.py",
        "- bonded + joined",
        "- bonded + 1",
        tests("nn/pairs/test_features.py", "test_resistances_equal_those_of_networkx"),
    ),
    Mutation(
        "kernels: the width outside of the square",
        "nn/pairs/features.py",
        "((resistance[..., None] - self.centres) / self.widths).square()",
        "((resistance[..., None] - self.centres).square() / self.widths)",
        tests(
            "nn/pairs/test_features.py",
            "test_resistance_kernels_are_gaussians_with_learned_centres_and_widths",
        ),
    ),
    Mutation(
        "gate: weights sum up to one again behind it",
        "nn/kernels/attention.py",
        "attended = (gated @ v).div_(total)",
        "attended = (gated @ v).div_(gated.sum(-1, keepdim=True))",
        tests(ATTENTION, "test_gates_multiply_the_weights_after_the_softmax"),
    ),
    Mutation(
        "gate: its gradient multiplied by itself",
        "nn/kernels/attention.py",
        "(grad_gated * dropped).unflatten",
        "(grad_gated * gated).unflatten",
        tests(ATTENTION, "test_gates_multiply_the_weights_after_the_softmax", "test_gradcheck"),
    ),
    Mutation(
        "gate: none where the tokens alone ask",
        "nn/pairs/tensors.py",
        "gates=None if gates is None else [part[:, :, :1] for part in gates],",
        "gates=None,",
        WHOLE,
    ),
    Mutation(
        "degree scaler: the degree, not its logarithm",
        "nn/degree.py",
        "torch.log1p(batch.degrees.to(self.plain.dtype))",
        "batch.degrees.to(self.plain.dtype)",
        tests("nn/test_degree.py", "test_degree_scaler_equals_a_loop_over_atoms"),
    ),
    Mutation(
        "pair vectors: as they came, in every layer",
        "nn/pairs/pair_attention.py",
        "return e if self.pair_out is None else",
        "return e if self.pair_out is not None else",
        PAIRS,
    ),
    Mutation(
        "pair vectors: the square root loses the sign",
        "nn/kernels/pair_attention.py",
        "z.mul_(root).add_(shift)",
        "z.abs().mul_(root).add_(shift)",
        PAIRS,
    ),
    Mutation(
        "read-out: the sum counts the graph token and padding",
        "nn/readout.py",
        "self.sums(x * batch.mask[:, None], batch)",
        "self.sums(x, batch)",
        READ_OUT,
    ),
    Mutation(
        "read-out: pooled atoms in the order of blocks",
        "nn/readout.py",
        "pooled.index_select(0, batch.order)",
        "pooled",
        READ_OUT,
    ),
    Mutation(
        "stochastic depth: kept branches not scaled up",
        "nn/dropout.py",
        ".to(x.dtype) / (1 - self.p)",
        ".to(x.dtype)",
        DEPTH,
    ),
    Mutation(
        "stochastic depth: slot by slot, not graph by graph",
        "nn/dropout.py",
        "torch.rand(sum(graphs), 1, device=x.device)",
        "torch.rand(len(x), 1, device=x.device)",
        DEPTH,
    ),
    Mutation(
        "post-norm: applied as pre-norm",
        "nn/layer.py",
        "        x, pairs = self.add_attention(x, x, pairs, batch)",
        "        x, pairs = super().forward(x, pairs, batch)",
        WHOLE,
    ),
    Mutation(
        "norms: the last site's kind ignored",
        "nn/norms.py",
        "_make(config, kinds.last_graph",
        "_make(config, kinds.graph",
        tests(
            "nn/test_ingredients.py", "test_the_first_and_last_norm_of_the_graph_token_may_differ"
        ),
    ),
    Mutation(
        "norms: a batch norm's momentum ignored",
        "sepnorm/kinds.py",
        "partial(nn.BatchNorm1d, momentum=momentum)",
        "nn.BatchNorm1d",
        tests("nn/test_ingredients.py", "test_the_momentum_is_that_of_every_batch_norm"),
    ),
    # the task
    Mutation(
        "labels: standardised with the unbiased deviation",
        "tasks/target.py",
        "float(present.std())",
        "float(present.std(ddof=1))",
        tests("tasks/test_tasks.py", "test_fit_standardises_by_the_training_labels"),
    ),
    Mutation(
        "labels: standardised by all splits",
        "training/run.py",
        '    labels[dataset.splits["train"]],\n        metric,',
        "    labels[:],\n        metric,",
        tests(CLAIMS, "test_training_never_reads_the_labels_it_is_tested_on"),
    ),
    Mutation(
        "loss: missing labels count",
        "tasks/loss.py",
        "losses = torch.where(present, self._losses(outputs, labels), 0.0)",
        "losses, weight = self._losses(outputs, labels), weight + 1 - present.float()",
        SLOW_LOSS,
    ),
    Mutation(
        "loss: divided by missing labels too",
        "tasks/loss.py",
        "return (losses * weight).sum(), weight.sum()",
        "return (losses * weight).sum(), torch.tensor(float(weight.numel()))",
        SLOW_LOSS,
    ),
    Mutation(
        "predictions: the mean not added back",
        "tasks/task.py",
        'self._per_output("scale", outputs) + self._per_output("mean", outputs)',
        'self._per_output("scale", outputs)',
        tests("tasks/test_tasks.py", "test_predictions_undo_the_standardisation"),
    ),
    Mutation(
        "best model: the worst is kept",
        "tasks/metrics/metric.py",
        "score > than if self.higher_is_better else score < than",
        "score < than if self.higher_is_better else score > than",
        tests("training/test_loop.py", "test_the_best_model_is_kept"),
    ),
    Mutation(
        "ROC-AUC: of yes/no guesses, not of probabilities",
        "tasks/metrics/scoring.py",
        "sk.roc_auc_score(truth, predicted)",
        "sk.roc_auc_score(truth, predicted > 0.5)",
        tests(SCORING, "test_only_the_order_of_predictions_counts", "test_values_by_hand"),
    ),
    Mutation(
        "constant predictor: mean for median",
        "tasks/task.py",
        "middle = np.median if",
        "middle = np.mean if",
        tests("tasks/test_tasks.py", "test_the_constant_is_the_median_or_the_shares"),
    ),
    # training
    Mutation(
        "schedule: the warm-up begins at zero",
        "training/optim.py",
        "config.lr * (step + 1) / warmup",
        "config.lr * step / warmup",
        WARMUP,
    ),
    Mutation(
        "schedule: the decay one step ahead",
        "training/optim.py",
        "done = (step - warmup)",
        "done = (step + 1 - warmup)",
        WARMUP,
    ),
    Mutation(
        "EMA: decay and its complement exchanged",
        "training/optim.py",
        "1 - min(self.decay, (1 + step) / (10 + step)) if",
        "min(self.decay, (1 + step) / (10 + step)) if",
        SLOW_EMA,
    ),
    Mutation(
        "EMA: the network under training is validated and kept",
        "training/loop.py",
        "return self.network if self.average is None else",
        "return self.network if self.average is not None else",
        tests(CLAIMS, "test_the_average_of_the_weights_is_what_is_validated_and_kept"),
    ),
    Mutation(
        "resume: random numbers not restored",
        "training/distributed.py",
        'torch.set_rng_state(states[self._name("cpu")])',
        "pass",
        RESUME,
    ),
    Mutation(
        "resume: the epoch begins anew",
        "training/loop.py",
        "batches[progress.step_in_epoch :]",
        "batches",
        RESUME,
    ),
    Mutation(
        "statistics: a running average, not the mean",
        "training/statistics.py",
        "norm.momentum = None",
        "norm.momentum = 0.1",
        tests("training/test_statistics.py", "test_statistics_are_the_mean_over_the_batches"),
    ),
    Mutation(
        "history: loss divided by batches, not by labels",
        "training/loop.py",
        "train_loss=progress.loss_sum / max(progress.loss_count, TINY)",
        "train_loss=progress.loss_sum / max(progress.step_in_epoch, 1)",
        ONE_PASS,
    ),
    Mutation(
        "split: training molecules are validated on",
        "data/datasets/splitters.py",
        "return rest[:num_train], rest[num_train:], test",
        "return rest, rest[num_train:], test",
        tests(SPLITS, "test_a_draw_puts_every_molecule_into_one_split_and_repeats_itself"),
    ),
    Mutation(
        "split: the test molecules change with the replicate",
        "data/datasets/splitters.py",
        "order = np.random.default_rng(config.split_seed).permutation(count)",
        "order = np.random.default_rng(config.split_seed + config.fold).permutation(count)",
        tests(SPLITS, "test_the_test_molecules_are_the_same_in_every_fold_and_replicate"),
    ),
    Mutation(
        "table: weights of the rows, not of the molecules that could be read",
        "data/datasets/table.py",
        "weights[store.rows].astype",
        "weights[: len(store)].astype",
        tests(
            "data/datasets/test_table.py",
            "test_rows_that_cannot_be_read_are_left_out_with_their_reason",
        ),
    ),
    Mutation(
        "labels: a blank weight counts nothing",
        "data/datasets/labels.py",
        "nan=1",
        "nan=0",
        tests("data/datasets/test_labels.py", "test_weights_are_numbers_and_blanks_1"),
    ),
    Mutation(
        "loss: class weights exchanged",
        "tasks/target.py",
        "(occurring * np.maximum(counts, 1))",
        "(occurring * np.maximum(counts[::-1], 1))",
        tests("tasks/test_tasks.py", "test_balanced_weights_equal_scikit_learns"),
    ),
    Mutation(
        "metrics: yes/no with one class among the labels is scored",
        "tasks/metrics/scoring.py",
        '("r2", "spearman", "roc_auc", "pr_auc", "mcc")',
        '("r2", "spearman", "pr_auc")',
        tests(SCORING, "test_undefined_scores_are_nan"),
    ),
    Mutation(
        "bootstrap: drawn without replacement",
        "tasks/metrics/resampling.py",
        "np.bincount(rng.integers(0, n, n), minlength=n)",
        "np.bincount(rng.permutation(n), minlength=n)",
        tests("tasks/metrics/test_resampling.py", "test_draws_are_with_replacement_and_fair"),
    ),
    Mutation(
        "OGB: validation and test exchanged",
        "data/datasets/ogb/files.py",
        'PARTS = ("train", "valid", "test")',
        'PARTS = ("train", "test", "valid")',
        tests("data/datasets/test_ogb.py", "test_a_small_set_is_loaded_as_it_was_written"),
    ),
    Mutation(
        "OGB's features: hydrogens are counted with the bonds",
        "molecules/featurize/ogb.py",
        "_HYDROGENS.get(degree - bonded, 9)",
        "_HYDROGENS.get(degree, 9)",
        tests("molecules/featurize/test_ogb.py", "test_oddities_equal_ogb"),
    ),
    Mutation(
        "batches: bounded by atoms, not by pairs",
        "data/batching/bucketing.py",
        "sum(group.graphs * group.slots**2 for group in",
        "sum(group.graphs * group.slots for group in",
        tests(
            "data/batching/test_bucketing.py",
            "test_a_bounded_epoch_loses_no_molecule_and_keeps_to_its_limits",
        ),
    ),
    Mutation(
        "cleaning: labels far apart become one",
        "data/checking/clean.py",
        "_MENDED = 0.5",
        "_MENDED = 500",
        tests(
            "data/checking/test_clean.py",
            "test_contradicting_numbers_become_their_median_or_a_blank",
        ),
    ),
    Mutation(
        "inference: outputs in the order of sizes",
        "predict/inference.py",
        "outputs[torch.from_numpy(np.concatenate(batches))] = sorted_outputs",
        "outputs[:] = sorted_outputs",
        tests("predict/test_inference.py", "test_equals_one_molecule_at_a_time"),
    ),
    # a GPU's steps, and several processes
    Mutation(
        "captured steps: the learning rate stays as it was while recording",
        "training/step.py",
        'group["lr"] = self._rate if self._captured else rate',
        'group["lr"] = rate',
        SAME_STEPS,
    ),
    Mutation(
        "captured steps: the same molecules in every step",
        "training/step.py",
        "graphs.copy_(molecules)",
        "pass",
        SAME_STEPS,
    ),
    Mutation(
        "captured steps: the average's weight stays as it was while recording",
        "training/step.py",
        "self._weight.fill_(weight)",
        "self._weight = torch.full_like(self._weight, weight)",
        tests("training/test_step.py", "test_the_average_follows_in_recorded_steps"),
    ),
    Mutation(
        "captured steps: recording trains",
        "training/capture.py",
        "tensor.copy_(value)",
        "pass",
        UNNOTICED,
    ),
    Mutation(
        "captured steps: recording leaves moments",
        "training/capture.py",
        "tensor.zero_()",
        "pass",
        UNNOTICED,
    ),
    Mutation(
        "fixed shapes: without room for unlike batches",
        "data/batching/bucketing.py",
        "_DEVIATIONS = 4.5",
        "_DEVIATIONS = 0.0",
        tests("data/batching/test_bucketing.py", "test_random_batches_fit_a_fixed_layout"),
    ),
    Mutation(
        "fixed shapes: the graph token needs no slot",
        "data/batching/bucketing.py",
        "(sizes[order] < widths).all()",
        "(sizes[order] <= widths).all()",
        tests("data/batching/test_bucketing.py", "test_molecules_are_fitted_where_any_order_fits"),
    ),
    Mutation(
        "fused attention: the gradient of a softmax without its second term",
        "nn/kernels/triton_kernels.py",
        "weights * (grad_weights - along[:, None])",
        "weights * grad_weights",
        FUSED,
    ),
    Mutation(
        "fused attention: values without the scale of dropout",
        "nn/kernels/triton_kernels.py",
        "attended = scale * tl.dot(",
        "attended = tl.dot(",
        tests("nn/kernels/test_fused_attention.py", "test_dropout_keeps_the_mean"),
    ),
    Mutation(
        "fused attention: dropped weights have gradients",
        "nn/kernels/triton_kernels.py",
        "grad_weights = tl.where(mask, grad_weights, 0.0)",
        "grad_weights = grad_weights",
        tests(
            "nn/kernels/test_fused_attention.py", "test_dropout_is_the_same_forward_and_backward"
        ),
    ),
    Mutation(
        "attention: sums of exponentials up to the end of float32",
        "nn/kernels/attention.py",
        "1e-30, 1e25",
        "1e-30, 3.4e38",
        tests(ATTENTION, "test_float32_is_accurate_near_the_range_of_exponentials"),
    ),
    Mutation(
        "processes: all take the first one's molecules",
        "training/distributed.py",
        "return graphs[self.rank :: self.size]",
        "return graphs[:: self.size]",
        tests(
            "training/test_distributed.py",
            "test_shares_are_whole_without_duplicates_and_gathered_bit_for_bit",
        ),
    ),
    Mutation(
        "processes: a norm's gradient forgets the others' rows",
        "sepnorm/synchronized.py",
        "distributed.all_reduce(both)",
        "distributed.barrier()",
        tests(
            "training/test_distributed.py",
            "test_synchronised_norm_equals_the_norm_of_all_rows",
        ),
    ),
    Mutation(
        "processes: each divides its loss by its own labels",
        "training/step.py",
        "self.world.sum(of_all)",
        "pass",
        TORCHRUN,
    ),
    Mutation(
        "processes: each validates on its own molecules",
        "training/loop.py",
        "outputs = self.world.gather(share)",
        "outputs = share.repeat(self.world.size, 1)[: len(graphs)]",
        TORCHRUN,
    ),
    Mutation(
        "validation: an epoch too late",
        "training/loop.py",
        "(progress.epoch + 1) % run.validate_every == 0",
        "progress.epoch % run.validate_every == 0",
        tests("training/test_step.py", "test_validation_every_few_epochs"),
    ),
    Mutation(
        "geometry: singular values of the cloud as it lies, not centred",
        "analysis/geometry/measures.py",
        "    centred = exact - exact.mean(0)",
        "    centred = exact",
        tests(
            "analysis/geometry/test_measures.py",
            "test_a_cloud_of_rank_one_has_one_direction_wherever_it_lies",
        ),
    ),
    Mutation(
        "geometry: rounding counts as a direction",
        "analysis/geometry/measures.py",
        "rounding = _ROUNDING * ",
        "rounding = 0 * ",
        tests("analysis/geometry/test_measures.py", "test_rounding_is_no_spread"),
    ),
    Mutation(
        "geometry: uniformity counts each point with itself",
        "analysis/geometry/measures.py",
        "            exponents.diagonal(start).fill_(-torch.inf)  # itself\n",
        "",
        tests(
            "analysis/geometry/test_measures.py",
            "test_uniformity_of_points_evenly_spaced_on_a_circle",
        ),
    ),
    Mutation(
        "geometry: uniformity of points of any length",
        "analysis/geometry/measures.py",
        "        directions = F.normalize(at_least_float32(points), dim=1)",
        "        directions = points",
        tests(
            "analysis/geometry/test_measures.py",
            "test_uniformity_of_points_evenly_spaced_on_a_circle",
        ),
    ),
    Mutation(
        "geometry: alignment of points of any length",
        "analysis/geometry/measures.py",
        "        return (u - v).square()",
        "        return (points - others).square()",
        tests(
            "analysis/geometry/test_measures.py", "test_alignment_of_turned_points_is_their_chord"
        ),
    ),
    Mutation(
        "geometry: a map may flip",
        "analysis/geometry/measures.py",
        "return places * torch.where(furthest < 0, -1, 1), shares",
        "return places, shares",
        tests(
            "analysis/geometry/test_measures.py",
            "test_the_map_keeps_distances_of_a_flat_cloud_and_does_not_flip",
            "test_a_single_channel_has_a_flat_map",
        ),
    ),
    Mutation(
        "geometry: a regression is asked of molecules that it was fitted to",
        "analysis/geometry/correlation.py",
        "ridge.fit(points[fit], values[fit])",
        "ridge.fit(points, values)",
        tests(
            "analysis/geometry/test_correlation.py",
            "test_noise_is_not_read_off_although_a_regression_without_folds_would",
        ),
    ),
    Mutation(
        "geometry: both views are the same",
        "analysis/geometry/analysis.py",
        "            views = [embedded(partial(_with_dropout, network)) for _ in range(2)]",
        "            views = [embedded(partial(_with_dropout, network))] * 2",
        tests("analysis/geometry/test_analysis.py", "test_alignment_is_of_dropout_alone"),
    ),
    Mutation(
        "geometry: the last site is the first",
        "analysis/geometry/analysis.py",
        "_ROWS.index(read), -1]",
        "_ROWS.index(read), 0]",
        tests("analysis/geometry/test_analysis.py", "test_the_end_is_what_the_read_out_reads"),
    ),
    Mutation(
        "geometry: molecules drawn are in no order",
        "analysis/geometry/subjects.py",
        "graphs = np.sort(np.random.default_rng(0).choice(graphs, most, replace=False))",
        "graphs = np.random.default_rng(len(subjects)).choice(graphs, most, replace=False)",
        tests(
            "cli/test_analyze.py",
            "test_an_ablation_is_told_of_by_variant",
            "test_some_of_many_molecules_are_the_same_for_all",
        ),
    ),
    Mutation(
        "geometry: a run that is under way counts",
        "analysis/geometry/subjects.py",
        'if _holds_model(each) and (each / "metrics.json").is_file():',
        "if _holds_model(each):",
        tests("cli/test_analyze.py", "test_a_finished_run_counts_and_one_under_way_does_not"),
    ),
    Mutation(
        "geometry: titles of a page are not escaped",
        "analysis/geometry/report.py",
        "f'<{kind}>{escape(text)}</{kind}>'",
        "f'<{kind}>{text}</{kind}>'",
        tests(
            "analysis/geometry/test_report.py",
            "test_names_are_text_and_numbers_are_those_of_the_table",
        ),
    ),
    Mutation(
        "layers: the atoms' mean counts padding",
        "nn/observe.py",
        'for kind in ("token", "mean")',
        'for kind in ("token", "sum")',
        tests("nn/test_observe.py", "test_layer_embeddings_equal_the_outputs_of_the_layers"),
    ),
    Mutation(
        "layers: tokens in the order of the slots",
        "nn/observe.py",
        "tokens = x.index_select(0, batch.order)",
        "tokens = x",
        tests("nn/test_observe.py", "test_layer_embeddings_equal_the_outputs_of_the_layers"),
    ),
    Mutation(
        "contrastive: the loss asks one way",
        "training/objectives/contrastive.py",
        "(F.cross_entropy(logits, partner) + F.cross_entropy(logits.T, partner)) / 2",
        "F.cross_entropy(logits, partner)",
        tests(
            "training/objectives/test_contrastive.py",
            "test_the_loss_is_the_probability_of_the_partner_both_ways",
        ),
    ),
    Mutation(
        "contrastive: views of any length",
        "training/objectives/contrastive.py",
        "logits = u @ v.T / temperature",
        "logits = first @ second.T / temperature",
        tests(
            "training/objectives/test_contrastive.py",
            "test_the_loss_is_the_probability_of_the_partner_both_ways",
        ),
    ),
    Mutation(
        "contrastive: norms train while dropout alone should be drawn",
        "nn/dropout.py",
        "module.training = isinstance(module, _RANDOM)",
        "module.training = True",
        tests(
            "training/objectives/test_contrastive.py",
            "test_dropout_alone_leaves_norms_and_modes_as_they_are",
        ),
    ),
    Mutation(
        "conversion: a batch norm of tokens never hears of padding",
        "sepnorm/conversion/convert.py",
        "new.padding = contexts.setdefault(home, new.padding)",
        "pass",
        tests(
            "sepnorm/conversion/test_rules.py",
            "test_the_mask_of_an_unknown_model_is_its_own_argument",
        ),
    ),
    Mutation(
        "conversion: torch's encoder packs padded batches",
        "sepnorm/conversion/convert.py",
        '(module, "use_nested_tensor", False)',
        '(module, "use_nested_tensor", True)',
        tests("sepnorm/conversion/test_rules.py", "test_the_fused_path_does_not_bypass_sepnorm"),
    ),
    Mutation(
        "conversion: torch's fused path bypasses the norms",
        "sepnorm/conversion/convert.py",
        '(module, "activation_relu_or_gelu", 0)',
        '(module, "activation_relu_or_gelu", 1)',
        tests("sepnorm/conversion/test_rules.py", "test_the_fused_path_does_not_bypass_sepnorm"),
    ),
    Mutation(
        "conversion: weights are not taken over",
        "sepnorm/conversion/norm_factories.py",
        "target.copy_(source)",
        "pass",
        tests("sepnorm/conversion/test_rules.py", "test_weights_and_epsilon_are_taken_over"),
    ),
    Mutation(
        "conversion: a batch norm before the first layer",
        "sepnorm/conversion/convert.py",
        "first_cls_norm if is_first else cls_norm",
        "cls_norm",
        tests("sepnorm/conversion/test_rules.py", "test_weights_and_epsilon_are_taken_over"),
    ),
    Mutation(
        "conversion: undone, hooks stay",
        "sepnorm/conversion/result.py",
        "        for hook in self._hooks:\n            hook.remove()\n",
        "",
        tests("sepnorm/conversion/test_convert.py", "test_undo"),
    ),
    Mutation(
        "conversion: undone, the fused path stays off",
        "sepnorm/conversion/result.py",
        "setattr(changed.module, changed.attribute, changed.old)",
        "pass",
        tests("sepnorm/conversion/test_rules.py", "test_undo_gives_the_fused_path_back"),
    ),
    Mutation(
        "conversion: padding counts and tokens do not",
        "sepnorm/conversion/padding.py",
        "return mask != 0",
        "return mask == 0",
        tests(
            "sepnorm/conversion/test_rules.py",
            "test_the_mask_of_an_unknown_model_is_its_own_argument",
        ),
    ),
    Mutation(
        "conversion: an old mask is kept where a call has none",
        "sepnorm/conversion/padding.py",
        "self.padding.real = self.padding.unreadable = None",
        "pass",
        tests(
            "sepnorm/conversion/test_multi_token.py", "test_masks_are_found_by_name_and_by_place"
        ),
    ),
    Mutation(
        "conversion: a mask is read in the wrong layout",
        "sepnorm/conversion/multi_token.py",
        "real = real if self.batch_first else real.transpose(0, 1)",
        "pass",
        tests(
            "sepnorm/conversion/test_rules.py",
            "test_of_an_encoder_and_a_decoder_the_encoder_is_known",
        ),
    ),
    Mutation(
        "conversion: the mask is not heeded",
        "sepnorm/conversion/multi_token.py",
        "None if real is None else self._others(real)",
        "None",
        tests(
            "sepnorm/conversion/test_rules.py",
            "test_the_mask_of_an_unknown_model_is_its_own_argument",
        ),
    ),
    Mutation(
        "conversion: weights of one norm are not taken by all",
        "sepnorm/conversion/multi_token.py",
        "state_dict.setdefault(prefix + name, value.clone())",
        "state_dict.setdefault(prefix + name, own)",
        tests(
            "sepnorm/conversion/test_multi_token.py",
            "test_the_weights_of_one_norm_are_taken_by_all",
        ),
    ),
    Mutation(
        "conversion: a ViT's first norm is one like the others",
        "sepnorm/conversion/architectures.py",
        '("encoder.layer.0.layernorm_before", "layers.0.layernorm_before")',
        "()",
        tests("sepnorm/conversion/test_convert.py", "test_sites_are_the_norms_on_sequences"),
    ),
    Mutation(
        "conversion: timm's registers are patches",
        "sepnorm/conversion/architectures.py",
        "    return vit.num_prefix_tokens\n",
        "    return 1\n",
        tests("sepnorm/conversion/test_convert.py", "test_sites_are_the_norms_on_sequences"),
    ),
    Mutation(
        "norms: a batch norm of the token at the first site",
        "nn/config.py",
        '("layer" if kind in BATCH_KINDS else kind)',
        "kind",
        tests("nn/test_graphormer.py", "test_norms_follow_from_the_name_and_its_overrides"),
    ),
    Mutation(
        "conversion: timm's norm of constants is taken for the only one",
        "sepnorm/conversion/architectures.py",
        'return ("norm_pre", "blocks.0.norm1"',
        'return ("norm_pre" if not isinstance(vit.norm_pre, nn.Identity) else "blocks.0.norm1"',
        tests("sepnorm/conversion/test_rules.py", "test_timm_before_its_first_block"),
    ),
    Mutation(
        "conversion: a decoder's first token is taken for a CLS",
        "sepnorm/conversion/architectures.py",
        "if architecture.causal(module):",
        "if False:",
        tests("sepnorm/conversion/test_rules.py", "test_bert_as_a_decoder_and_in_pieces"),
    ),
    Mutation(
        "conversion: layers of two stacks count as one",
        "sepnorm/conversion/architectures.py",
        'r"\\d+(?!.*\\d)"',
        'r"\\d+"',
        tests("sepnorm/conversion/test_rules.py", "test_a_layer_alone_and_layers_in_a_list"),
    ),
    Mutation(
        "conversion: layers called one by one do not hear of padding",
        "sepnorm/conversion/architectures.py",
        'masked=("", "layers.*")',
        'masked=("",)',
        tests(
            "sepnorm/conversion/test_convert.py", "test_layers_called_one_by_one_hear_of_padding"
        ),
    ),
    Mutation(
        "conversion: no site outside of known networks is a first one",
        "sepnorm/conversion/convert.py",
        "outside[:1]",
        "[]",
        tests(
            "sepnorm/conversion/test_rules.py", "test_a_rule_inside_a_known_network_takes_its_facts"
        ),
    ),
    Mutation(
        "conversion: norms share the tensors of an assigned state",
        "sepnorm/conversion/multi_token.py",
        "value.clone()",
        "value",
        tests("sepnorm/conversion/test_convert.py", "test_a_state_from_before_that_is_assigned"),
    ),
    Mutation(
        "conversion: undone, an old norm has the old type",
        "sepnorm/conversion/result.py",
        "each.old.to(None if dtype == self._dtype else dtype)",
        "pass",
        tests("sepnorm/conversion/test_convert.py", "test_undo_follows_the_model"),
    ),
    Mutation(
        "geometry: points far from the origin lose their rank",
        "analysis/geometry/measures.py",
        "float(torch.linalg.matrix_norm(exact))",
        "float(torch.linalg.matrix_norm(exact)) * len(points) ** 0.5",
        tests("analysis/geometry/test_measures.py", "test_single_precision_far_from_the_origin"),
    ),
    Mutation(
        "geometry: pairs of other pieces are left out",
        "analysis/geometry/measures.py",
        "products = directions[some] @ directions.T",
        "products = directions[some] @ directions[:_PAIRED_AT_ONCE].T",
        tests(
            "analysis/geometry/test_measures.py",
            "test_uniformity_in_pieces_and_of_points_without_direction",
        ),
    ),
    Mutation(
        "geometry: points without direction are far apart",
        "analysis/geometry/measures.py",
        "squares = directions.square().sum(1)",
        "squares = torch.ones_like(directions[:, 0])",
        tests(
            "analysis/geometry/test_measures.py",
            "test_uniformity_in_pieces_and_of_points_without_direction",
        ),
    ),
    Mutation(
        "geometry: runs are shown different molecules",
        "analysis/geometry/analysis.py",
        "if not _same_molecules(first, other):",
        "if not np.array_equal(*(each.store.sizes[each.graphs] for each in (first, other))):",
        tests("analysis/geometry/test_analysis.py", "test_other_molecules_are_refused"),
    ),
    Mutation(
        "geometry: a class is a number",
        "analysis/geometry/report.py",
        "named = analysis.classes and name == analysis.colour",
        "named = False",
        tests("analysis/geometry/test_report.py", "test_classes_are_named"),
    ),
    Mutation(
        "geometry: a name is a formula",
        "analysis/geometry/figure.py",
        '.replace("$", r"\\$")',
        "",
        tests("analysis/geometry/test_report.py", "test_names_are_drawn_as_they_are"),
    ),
    Mutation(
        "dropout: what is rounded to zero draws at random",
        "nn/kernels/dropout.py",
        "self.p = self.dropped / _VALUES",
        "self.p = p",
        tests("training/objectives/test_contrastive.py", "test_what_draws_at_random"),
    ),
    Mutation(
        "processes: what is in cycles keeps the group's threads",
        "training/distributed.py",
        "    atexit.register(gc.collect)  #",
        "    pass  #",
        tests(
            "training/test_distributed.py",
            "test_no_thread_of_a_process_group_is_left_when_python_ends",
        ),
    ),
    Mutation(
        "processes: DDP's import keeps the group's threads",
        "training/distributed.py",
        '    importlib.import_module("torch.distributed.nn.functional")\n',
        "    pass\n",
        tests(
            "training/test_distributed.py",
            "test_no_thread_of_a_process_group_is_left_when_python_ends",
        ),
    ),
    Mutation(
        "processes: a group whose other processes are gone is kept",
        "training/distributed.py",
        "                _leave()  # NCCL",
        "                pass  # NCCL",
        tests(
            "training/test_distributed.py",
            "test_no_thread_of_a_process_group_is_left_when_python_ends",
        ),
    ),
    Mutation(
        "geometry: the map is of the token, whatever is read",
        "analysis/geometry/analysis.py",
        '    read = TOKEN if network.config.readout.startswith("token") else ATOMS',
        "    read = TOKEN",
        tests("analysis/geometry/test_analysis.py", "test_the_end_is_what_the_read_out_reads"),
    ),
    Mutation(
        "table: no labels are needed where there must be some",
        "data/datasets/table.py",
        "blank = [] if labelled else config.targets or []",
        "blank = config.targets or []",
        tests(
            "data/datasets/test_table.py",
            "test_targets_that_a_table_lacks_are_blank_where_labels_are_not_needed",
        ),
    ),
    # devices
    Mutation(
        "devices: a figure that is not a number passes",
        "devices/verdict.py",
        "if v is None or not v <= self.bound",
        "if v is not None and v > self.bound",
        tests("devices/test_verdict.py", "test_what_a_verdict_says"),
    ),
    Mutation(
        "devices: a damaged verdict is believed",
        "devices/verdict.py",
        'if content != _signed(about, content["verdicts"]):',
        "if not content:",
        tests("devices/test_verdict.py", "test_a_damaged_file_is_another_check"),
    ),
    Mutation(
        "devices: a faulty attention is used all the same",
        "devices/network.py",
        "fused_attention.DEVICES.discard(device.type)",
        "pass",
        tests("devices/test_network.py", "test_a_faulty_attention_is_replaced"),
    ),
    Mutation(
        "devices: faulty captured steps are taken all the same",
        "training/trial.py",
        'model_copy(update={"step": "eager"})',
        'model_copy(update={"step": "captured"})',
        tests("training/test_trial.py", "test_faulty_captured_steps"),
    ),
    Mutation(
        "table: a store is used for other molecules",
        "data/datasets/table.py",
        "fingerprint(json.dumps(smiles))",
        "fingerprint(str(len(smiles)))",
        tests("data/datasets/test_table.py", "test_the_cache_knows_what_it_holds"),
    ),
    Mutation(
        "table: of columns of one name pandas renames all but the first",
        "data/tables/delimited.py",
        "piece.columns = names",
        "pass",
        tests("data/tables/test_read.py", "test_columns_of_one_name_are_all_kept"),
    ),
    Mutation(
        "table: which of two columns is needed is not clear, and the first is taken",
        "data/tables/read.py",
        "if once and columns.count(wanted) > 1:",
        "if False:",
        tests("data/datasets/test_table.py", "test_a_column_that_is_needed_and_there_twice"),
    ),
    Mutation(
        "csv: a bare carriage return is not quoted",
        "files/writing.py",
        r'csv.writer(_LineEnds(file, line_end), lineterminator="\r\n")',
        "csv.writer(file, lineterminator=line_end)",
        tests("files/test_writing.py", "test_rows_of_a_csv_are_read_back_as_they_were"),
    ),
    Mutation(
        "cells: the texts of numbers are kept",
        "data/datasets/parsing.py",
        'if self._texts == "all" or (self._texts == "words" and not self._present):',
        "if True:",
        tests("data/datasets/test_table.py", "test_memory_of_labels_is_four_bytes_each"),
    ),
]


def main(words: list[str]) -> int:
    chosen = [m for m in MUTATIONS if not words or any(w in m.what for w in words)]
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="molsepnorm-mutations-") as folder:
        copy = Path(folder)
        for name in COPIED:
            _copy(CHECKOUT / name, copy / name)
        _require_copy(copy)
        every = sorted({test for mutation in chosen for test in mutation.tests})
        if (code := _run(copy, every)) != 0:
            print(f"the tests do not pass on the package as it is (pytest: {code})")
            return 2
        found = [_mutate(copy, mutation) for mutation in chosen]
    print("| what is broken | in | test that fails | outcome |\n| --- | --- | --- | --- |")
    for mutation, outcome in zip(chosen, found, strict=True):
        names = ", ".join(f"`{test}`" for test in mutation.tests)
        print(f"| {mutation.what} | `{mutation.file}` | {names} | {outcome} |")
    counts = {kind: found.count(kind) for kind in sorted({*found, "caught"})}
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"\n{len(found)} mutations: {told} ({time.perf_counter() - begun:.0f} s)")
    return 0 if counts["caught"] == len(found) else 1


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, to)


def _mutate(copy: Path, mutation: Mutation) -> str:
    """Break the copy, run the tests, mend it."""
    path = copy / "molsepnorm" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"error: its text occurs {text.count(mutation.old)} times"
    broken = text.replace(mutation.old, mutation.new)
    if "torch." in mutation.new and "import torch\n" not in broken:
        broken = broken.replace("\nfrom torch", "\nimport torch\nfrom torch", 1)
    try:
        path.write_text(broken, encoding="utf-8")
        code = _run(copy, list(mutation.tests))
    finally:
        path.write_text(text, encoding="utf-8")
    outcome = {0: "survived", 1: "caught"}.get(code, f"error: pytest ended with {code}")
    print(f"{outcome:10}{mutation.what}", file=sys.stderr)
    return outcome


def _run(copy: Path, selection: list[str]) -> int:
    """Pytest's exit code: 0 all passed, 1 a test failed, others that they could not be run."""
    command = [sys.executable, "-m", "pytest", "-x", "--no-header", "--tb=no"]
    command += selection
    done = subprocess.run(command, cwd=copy, env=_environment(copy), capture_output=True, text=True)
    if done.returncode == 0 and " passed" not in done.stdout:
        return 5  # all were skipped
    return done.returncode


def _require_copy(copy: Path) -> None:
    """Check that the copy is imported, not the checkout, which may be installed editable."""
    where = subprocess.run(
        [sys.executable, "-c", "import molsepnorm; print(molsepnorm.__file__)"],
        cwd=copy,
        env=_environment(copy),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if Path(where).resolve() != (copy / "molsepnorm" / "__init__.py").resolve():
        raise SystemExit(f"{where} is imported, not the copy in {copy}")


def _environment(copy: Path) -> dict[str, str]:
    # nothing compiled is kept: a file mended within the same second would look unchanged
    return {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
