"""Utterances with their transcripts: LibriSpeech's layout (``layout``), the arrays of a prepared dataset (``arrays``),
what trainers read of these (``loading``), what a network is given of it (``spectrogram``) and is to say
(``characters``)."""
