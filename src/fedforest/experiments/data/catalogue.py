"""The data sets of the papers: shape, source, licence, citation, and the file that is expected.

Three tables nobody can download: they are made, in the printed shape, and results say so.
"""

from dataclasses import dataclass

UCI = "https://archive.ics.uci.edu"
UCI_LICENCE = "CC BY 4.0, as UCI publishes it"


@dataclass(frozen=True, slots=True)
class PaperDataSet:
    """A table of `n_rows` and `n_columns` features; `n_classes` is 0 for a number to predict.

    `originals` are the files of the source that a converter reads; without any, the table is made.
    """

    name: str
    title: str
    n_rows: int
    n_columns: int
    n_classes: int
    source: str
    citation: str
    licence: str = UCI_LICENCE
    originals: tuple[str, ...] = ()
    sha256: str = ""
    remark: str = ""
    group_keys: tuple[str, ...] = ()  # columns in front that say which rows belong together
    n_ungrouped: int = 0  # features in front of the first group
    groups: tuple[tuple[str, int], ...] = ()  # names and sizes of groups of consecutive features
    is_float32: bool = False

    @property
    def task(self) -> str:
        return "classification" if self.n_classes else "regression"

    @property
    def is_made(self) -> bool:
        return not self.sha256

    @property
    def layout(self) -> str:
        """Describe the Parquet file."""
        target = f"{self.n_classes} classes" if self.n_classes else "a number"
        return f"{self.n_rows:,} rows, {self.n_columns:,} features, last `target`: {target}"


DATA_SETS = {
    entry.name: entry
    for entry in (
        PaperDataSet(
            "ionosphere",
            "Ionosphere",
            351,
            34,
            2,
            f"{UCI}/dataset/52/ionosphere",
            "V. Sigillito, S. Wing, L. Hutton, K. Baker (1989)",
            originals=("ionosphere.data",),
            sha256="89dd3429cac0ba4566bfd751fd5fbccefd042b293f50b69028c92e625939e677",
        ),
        PaperDataSet(
            "spambase",
            "Spambase",
            4601,
            57,
            2,
            f"{UCI}/dataset/94/spambase",
            "M. Hopkins, E. Reeber, G. Forman, J. Suermondt (1999)",
            originals=("spambase.data",),
            sha256="8191bc66972d5c26bad8f8e5abd48a7448c24918aa294647f497d43299018269",
        ),
        PaperDataSet(
            "parkinson",
            "Parkinson's Disease Classification",
            756,
            753,
            2,
            f"{UCI}/dataset/470/parkinson+s+disease+classification",
            "C. O. Sakar and others, Applied Soft Computing 74 (2019)",
            originals=("pd_speech_features.csv",),
            sha256="2643dcd935e67d1a77d286234fa2000f353f647d46ded8cbf038b19867d01669",
            group_keys=("id",),
            n_ungrouped=1,  # gender
            groups=(
                ("baseline", 21),
                ("intensity", 3),
                ("formant", 4),
                ("bandwidth", 4),
                ("vocal_fold", 22),
                ("mfcc", 84),
                ("wavelet", 182),
                ("tqwt", 432),
            ),
            remark="a further column `id` says which rows belong to one subject; it is no feature",
        ),
        PaperDataSet(
            "kddcup99_10pct",
            "KDD Cup 1999, 10 % file",
            494021,
            41,
            23,
            f"{UCI}/dataset/130/kdd+cup+1999+data",
            "S. Stolfo, W. Fan, W. Lee, A. Prodromidis, P. Chan (1999)",
            originals=("kddcup.data_10_percent",),
            sha256="83b7c30a780b26aeda702a9caf7f7d256a98a0c77c6e8a5a0d86741af172ee84",
            is_float32=True,
            groups=(("basic", 9), ("content", 13), ("traffic_2s", 9), ("traffic_host", 10)),
            remark="the official tenth of the 4 million rows that the papers name",
        ),
        PaperDataSet(
            "waveform",
            "Waveform Database Generator (Version 1)",
            5000,
            21,
            3,
            f"{UCI}/dataset/107/waveform+database+generator+version+1",
            "L. Breiman, J. Friedman, R. Olshen, C. Stone (1984)",
            originals=("waveform.data",),
            sha256="a7ed5b05c4efef40c3c2973abeb02323af41e82333f0d5f2afb4d643fcac1e6b",
        ),
        PaperDataSet(
            "superconduct",
            "Superconductivty Data",
            21263,
            81,
            0,
            f"{UCI}/dataset/464/superconductivty+data",
            "K. Hamidieh, Computational Materials Science 154 (2018)",
            originals=("train.csv",),
            sha256="085669e6f33d373687abb23fc31617e0913a48ec8e09e0d98369f462f6adf49e",
            is_float32=True,
            groups=(
                ("count", 1),
                ("atomic_mass", 10),
                ("fie", 10),
                ("atomic_radius", 10),
                ("Density", 10),
                ("ElectronAffinity", 10),
                ("FusionHeat", 10),
                ("ThermalConductivity", 10),
                ("Valence", 10),
            ),
            remark="the expected file was computed again from the compositions, equal to 2e-7",
        ),
        PaperDataSet(
            "credit_default",
            "Default of Credit Card Clients",
            30000,
            23,
            2,
            f"{UCI}/dataset/350/default+of+credit+card+clients",
            "I.-C. Yeh, C.-H. Lien, Expert Systems with Applications 36 (2009)",
            originals=("UCI_Credit_Card.csv",),
            sha256="71503018de75a6c40438f02197d95848c8b5d538b0bd59d7a0ea4ada4528d3f7",
            remark="of the .xls file of UCI, save the sheet as UCI_Credit_Card.csv",
        ),
        PaperDataSet(
            "letter",
            "Letter Recognition",
            20000,
            16,
            26,
            f"{UCI}/dataset/59/letter+recognition",
            "D. Slate (1991)",
            originals=("letter-recognition.data",),
            sha256="57b53713b3ed79f38af55a39bca19d570677f5a1c543cae72cb604e2433b9d16",
        ),
        PaperDataSet(
            "mfeat",
            "Multiple Features",
            2000,
            649,
            10,
            f"{UCI}/dataset/72/multiple+features",
            "R. Duin (1998)",
            originals=tuple(f"mfeat-{view}" for view in ("fac", "fou", "kar", "mor", "pix", "zer")),
            sha256="aa12e544a77f9df6f9a64472438d0f26a902c63e561678c6500c78ecef5b5c57",
            groups=(("fac", 216), ("fou", 76), ("kar", 64), ("mor", 6), ("pix", 240), ("zer", 47)),
        ),
        PaperDataSet(
            "year_prediction_sample",
            "YearPredictionMSD, a sample",
            1176,
            90,
            0,
            f"{UCI}/dataset/203/yearpredictionmsd",
            "T. Bertin-Mahieux, D. Ellis, B. Whitman, P. Lamere (2011)",
            originals=("YearPredictionMSD.txt",),
            sha256="85d65a2cb59f1f059a64694774c07b2f1a6216467c530b62484244b221ab83fd",
            is_float32=True,
            groups=(("timbre_avg", 12), ("timbre_cov", 78)),
            remark="1,176 of 515,345 rows; a converter of the whole file takes its first rows",
        ),
        PaperDataSet(
            "gene",
            "made in the shape of gene expression cancer RNA-Seq",
            801,
            20531,
            5,
            f"{UCI}/dataset/401/gene+expression+cancer+rna+seq",
            "made from a seed; the original: Weinstein and others, Nature Genetics 45 (2013)",
            remark="made: the original could not be had",
        ),
        PaperDataSet(
            "target_marketing",
            "made in the shape of target marketing",
            156198,
            95,
            2,
            "private data of a bank (11 features) and a shop (84), never published",
            "made from a seed",
            remark="made: the original was never published",
        ),
        PaperDataSet(
            "mimic",
            "made in the shape of the MIMIC-III extract",
            35120,
            2168,
            2,
            "https://physionet.org/content/mimiciii/",
            "made from a seed; the original: A. Johnson and others, Scientific Data 3 (2016)",
            licence="the original is given to licensed researchers only",
            remark="made: the original needs a licence",
        ),
    )
}
