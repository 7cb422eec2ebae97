"""Names that a party takes from a coordinator: limited in length and alphabet, whatever is sent.

They end up in paths, logs, ledgers and refusals. No pattern ends in `$`, which lets a line break
through.
"""

from typing import Annotated

import msgspec

KeptId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]  # of a model or an alignment
RunText = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?\Z")]
DataSetName = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_-]{0,62}[A-Za-z0-9])?\Z")
]
RoleName = Annotated[  # of a party or a user, as in certificates
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?\Z")
]
Asker = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?)?\Z")]
# control characters, and those that reorder or hide text, would forge what an owner reads
ColumnName = Annotated[
    str,
    msgspec.Meta(
        pattern="^[^\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]{0,256}\\Z"
    ),
]
