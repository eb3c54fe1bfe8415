"""From requests to answers: published models, prompting, embedding, conversion."""
