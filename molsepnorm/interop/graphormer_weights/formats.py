"""Names of the tensors of other Graphormers, and how they are converted to ours.

Two formats have our architecture, a pre-norm Graphormer with one layer norm for all tokens:
"graphormer-v1", the first release of microsoft/Graphormer, and "hf", the encoder of
`GraphormerForGraphClassification` in transformers up to 4.57.6 with `pre_layernorm=True`.

====================== ============================================ ===========================
ours                   graphormer-v1                                conversion
====================== ============================================ ===========================
embedding.atoms        atom_encoder                                 rows, see below
embedding.degrees      in_degree_encoder, out_degree_encoder        from row 1 on, added up
embedding.graph_token  graph_token                                  row 0
pair_encoding.bias:
- graph_token          graph_token_virtual_distance                 row 0
- spatial              rel_pos_encoder (or spatial_pos_encoder)     from row 1 on
- unreachable          the same                                     row 511
- bonds.F              edge_encoder                                 rows, see below
- positions            edge_dis_encoder                             as (L, H, H), each transposed
layers.N:
- attention_norm.norm  self_attention_norm
- attention.qkv        self_attention.linear_q, linear_k, linear_v  concatenated
- attention.out        self_attention.output_layer
- ffn_norm.norm        ffn_norm
- ffn_in, ffn_out      ffn.layer1, ffn.layer2
last_norm.norm         final_ln
head                   downstream_out_proj, or out_proj
====================== ============================================ ===========================

In "hf" the tables are in graph_node_feature and graph_attn_bias, and a layer has
self_attn_layer_norm, self_attn.{q,k,v,out}_proj, final_layer_norm, fc1 and fc2. Its head (linear,
activation, norm, linear) has no counterpart here, so `last_norm` and `head` keep their initial
weights, and the graph token after the last layer is imported. The final_layer_norm of the encoder,
which has no layer number, has no effect, since transformers never applies it.

**Index shifts.** Both formats store the values of all features of an atom or a bond in one table,
with 512 rows per feature and some rows for padding. Value x of feature f is in row ::

    atoms   x + 512 f + 2 (graphormer-v1),  x + 512 f + 3 (hf)
    bonds   x + 512 f + 3 (both); one more for ZINC, whose bonds are 1, 2, 3 there and 0, 1, 2 here

A degree or a distance d is in row d + 1, and atoms of different fragments are at distance 510.
Weights of the reference's second release that were copied to transformers have atoms in the rows of
v1, while transformers' own collator reads the next row: use `atom_shift=2` for them.

**Transposes.** The matrix of a position multiplies a row vector from the right there, and a column
vector from the left here.

**Padding.** Row 0 of edge_encoder pads paths to the longest path of the batch, at most L bonds. v1
initialises it at random and never trains it, so its outputs depend slightly on the other molecules
of a batch. Its contribution to a path that is padded to L depends on the distance only, and is
added to `spatial` and `unreachable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["BOND_SHIFT", "FORMATS", "STRIDE", "UNREACHABLE_ROW", "Format"]

STRIDE = 512
"""Number of rows per feature."""

BOND_SHIFT = 3
"""The row of the first bond feature's value 0."""

UNREACHABLE_ROW = 511
"""The row of the distance between atoms of different fragments."""


@dataclass(frozen=True)
class Format:
    """Module names of a format; its tensors have .weight or .bias appended."""

    atom_shift: int
    """The row of the first atom feature's value 0."""

    tables: dict[str, str]
    """Content of a table -> its module."""

    layer: dict[str, str]
    """Our module in a layer -> theirs; q, k and v are separate."""

    settings: dict[str, str]
    """Our hyper-parameter -> theirs."""

    after: dict[str, str] = field(default_factory=dict)
    """Our module after the last layer -> theirs."""

    aliases: dict[str, str] = field(default_factory=dict)
    """Names in some versions of the format -> names above."""

    unused: tuple[str, ...] = ()
    """Modules of the encoder without effect."""

    head: tuple[str, ...] = ()
    """Parts of the tensor names of a head without a counterpart here."""


FORMATS = {
    "graphormer-v1": Format(
        atom_shift=2,
        tables={
            "atoms": "atom_encoder",
            "in_degrees": "in_degree_encoder",
            "out_degrees": "out_degree_encoder",
            "graph_token": "graph_token",
            "virtual_distance": "graph_token_virtual_distance",
            "distances": "rel_pos_encoder",
            "bonds": "edge_encoder",
            "positions": "edge_dis_encoder",
        },
        layer={
            "attention_norm.norm": "self_attention_norm",
            "q": "self_attention.linear_q",
            "k": "self_attention.linear_k",
            "v": "self_attention.linear_v",
            "attention.out": "self_attention.output_layer",
            "ffn_norm.norm": "ffn_norm",
            "ffn_in": "ffn.layer1",
            "ffn_out": "ffn.layer2",
        },
        settings={"dropout": "dropout_rate", "attention_dropout": "attention_dropout_rate"},
        after={"last_norm.norm": "final_ln", "head": "downstream_out_proj"},
        aliases={"spatial_pos_encoder": "rel_pos_encoder", "out_proj": "downstream_out_proj"},
    ),
    "hf": Format(
        atom_shift=3,
        tables={
            "atoms": "graph_node_feature.atom_encoder",
            "in_degrees": "graph_node_feature.in_degree_encoder",
            "out_degrees": "graph_node_feature.out_degree_encoder",
            "graph_token": "graph_node_feature.graph_token",
            "virtual_distance": "graph_attn_bias.graph_token_virtual_distance",
            "distances": "graph_attn_bias.spatial_pos_encoder",
            "bonds": "graph_attn_bias.edge_encoder",
            "positions": "graph_attn_bias.edge_dis_encoder",
        },
        layer={
            "attention_norm.norm": "self_attn_layer_norm",
            "q": "self_attn.q_proj",
            "k": "self_attn.k_proj",
            "v": "self_attn.v_proj",
            "attention.out": "self_attn.out_proj",
            "ffn_norm.norm": "final_layer_norm",
            "ffn_in": "fc1",
            "ffn_out": "fc2",
        },
        settings={name: name for name in ("dropout", "attention_dropout", "activation_dropout")},
        unused=("final_layer_norm",),
        head=(
            "lm_head_transform_weight",
            "layer_norm",
            "classifier",
            "lm_output_learned_bias",
            "embed_out",
        ),
    ),
}
"""The formats that can be imported."""
