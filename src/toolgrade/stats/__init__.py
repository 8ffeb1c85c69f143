"""Statistics of scores: separation of good from bad, comparison of versions, intervals and repeated trials.

Pure functions over numbers, standard library only. An undefined number is `None`, never 0.

- *Area under the ROC curve* (AUC): the probability that a random good one scores higher than a random bad one, ties
  counting one half. It is the rank statistic of Mann and Whitney divided by the number of pairs (Hanley and McNeil,
  "The meaning and use of the area under a receiver operating characteristic curve", Radiology 143, 1982). Counted in
  integers, so equal scores are ties and no sum drifts. Time: n log n.
- *Clustered bootstrap*: clusters, such as the runs of one task, are resampled as a whole with replacement, and
  the interval has the percentiles as its ends (Efron, 1979; for clusters Davison and Hinkley, "Bootstrap
  methods and their application", 1997, section 3.8). Percentiles are interpolated as in Hyndman and Fan's type 7.
- *McNemar's test*, exact: tests whether more of the changed pairs changed in one direction than by chance (McNemar,
  "Note on the sampling error of the difference between correlated proportions", Psychometrika 12, 1947.) `sign_flip` is
  the same for clusters of pairs: Fisher's randomization test, in which each whole cluster might have been the other way
  round.
- *Holm's correction* of several tests at once (Holm, "A simple sequentially rejective multiple test procedure",
  Scandinavian Journal of Statistics 6, 1979).
- *Intervals of a mean and of a share*, for results that come in clusters, such as trials of one task: the standard
  error is the one that allows for clusters (Liang and Zeger, "Longitudinal data analysis using generalized linear
  models", Biometrika 73, 1986; for evaluations of models Miller, "Adding error bars to evals", 2024), the quantile
  Student's for the number of clusters less one. A share has Wilson's interval ("Probable inference, the law of
  succession, and statistical inference", JASA 22, 1927), with the number of independent results that the clustered ones
  are worth (Kish, "Survey sampling", 1965; with Wilson's interval Franco and others, "Comparative study of confidence
  intervals for proportions in complex sample surveys", Journal of Survey Statistics and Methodology 7, 2019). In a
  simulation of 40 tasks of beta(0.6, 0.3) difficulty with 5 trials each, nominal 95 % cover 95.0 % (mean) and 95.7 %
  (share); taking all trials for independent ones covers 73.7 %.
- *pass@k* and *pass^k*, unbiased: the probability that at least one of k trials passes (Chen and others, "Evaluating
  large language models trained on code", 2021), and that all k pass (Yao and others, "tau-bench", 2024).
"""
