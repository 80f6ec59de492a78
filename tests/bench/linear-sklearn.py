# The peer of bench/linear-sklearn. linear-sklearn.py MODEL LABEL TRAIN TEST COLUMN...: numbers as they are scaled by
# log-z, a column of zeros and ones for each category. Prints accuracy, auc or rmse of the rows of TEST.
import csv
import sys

import numpy
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_squared_error, roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

model, label, train, test, *dense = sys.argv[1:]


def read(path):
    rows = list(csv.DictReader(open(path, newline="")))
    numbers = numpy.array([[float(r[c]) for c in dense] for r in rows])
    words = [[r[c] for c in rows[0] if c not in dense and c != label] for r in rows]
    return numpy.sign(numbers) * numpy.log1p(abs(numbers)), words, [r[label] for r in rows]


numbers, words, y = read(train)
scaler, encoder = StandardScaler().fit(numbers), OneHotEncoder(handle_unknown="ignore").fit(words)


def inputs(numbers, words):
    return numpy.hstack([scaler.transform(numbers), encoder.transform(words).toarray()])


x = inputs(numbers, words)
numbers, words, truth = read(test)
other = inputs(numbers, words)
if model == "linear":
    made = Ridge(alpha=1).fit(x, [float(v) for v in y]).predict(other)
    print(f"rmse={mean_squared_error([float(v) for v in truth], made) ** 0.5:.4f}")
elif model == "softmax":
    made = LogisticRegression(C=1, max_iter=500).fit(x, y).predict(other)
    print(f"accuracy={accuracy_score(truth, made):.4f}")
else:
    loss = {"hinge": "hinge", "squared-hinge": "squared_hinge"}.get(model)
    if loss:
        made = LinearSVC(C=0.1, loss=loss, max_iter=20000).fit(x, y).decision_function(other)
    else:
        made = LogisticRegression(C=1, max_iter=500).fit(x, y).decision_function(other)
    print(f"auc={roc_auc_score(truth, made):.4f}")
