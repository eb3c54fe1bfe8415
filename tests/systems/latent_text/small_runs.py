"""Recipes and texts of two small runs with a latent space: a text VAE, and a class-conditional one."""

from __future__ import annotations

PARTS = """\
  encoder: {{type: text-encoder, dim: 8, encoder: {mixer}, head: null}}
  decoder: {{type: language-model, dim: 8, decoder: {mixer}}}
learning: {{type: gradient, steps: 2, batch_tokens: 300}}
evaluate: {{search: {{type: greedy, max_length: 7}}}}
""".format(mixer="{type: transformer, layers: 1, layer: {mixer: {type: multihead, heads: 2}}}")
VAE = f"""\
device: cpu
data: {{type: autoencoding-text, train: texts.txt, tokenizer: word, max_length: 12, validation_fraction: 0.2}}
objective: elbo
structure:
  type: text-vae
  latent: 5
{PARTS}"""
CONDITIONAL = f"""\
device: cpu
data:
  type: autoencoding-text
  train: texts.tsv
  label: label
  tokenizer: {{type: bpe, vocab_size: 40}}
  word_ids: true
  min_words: 1
  max_words: 13
  validation_fraction: 0.2
objective: elbo
structure:
  type: text-vae
  latent: 4
  label_dim: 4
  pooler: {{type: position-concat, positions: 14}}
{PARTS}"""
EXAMPLES = [
    (f"the {thing} was {degree}{word}", label)
    for thing in ("food", "staff", "room")
    for degree in ("", "very ", "not at all ")
    for label, words in (("good", ("fine", "lovely")), ("bad", ("cold", "rude")))
    for word in words
]
TEXTS = [text for text, _ in EXAMPLES]
A, B, C = "the food was fine", "the room was not at all rude", "the staff was very lovely"
