#!/usr/bin/env python3
"""sklearn-train.py ROWS.csv MODEL.pickle: trains a linear model of scikit-learn with partial_fit.

ROWS.csv has no header; the first column is 0 or 1, the others are numbers. An example of
paceline-trainers(7):

    trainctl run job.env        with TRAINER='python3 sklearn-train.py rows.csv model.pickle'
    python3 sklearn-train.py rows.csv model.pickle                      by hand, without a job
"""
import os
import pickle
import sys

import numpy
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

import paceline

data = numpy.loadtxt(sys.argv[1], delimiter=",", ndmin=2)
x, y = data[:, 1:], data[:, 0]

model = SGDClassifier(loss="log_loss", alpha=1e-5, random_state=1)


def save(directory):
    with open(os.path.join(directory, "model.pickle"), "wb") as file:
        pickle.dump(model, file)


def resume(directory):
    global model
    with open(os.path.join(directory, "model.pickle"), "rb") as file:
        model = pickle.load(file)


for batch in paceline.batches(save=save, resume=resume, samples=len(y), epochs=3):
    model.partial_fit(x[batch.rows], y[batch.rows], classes=[0, 1])
    batch.loss = log_loss(y[batch.rows], model.predict_proba(x[batch.rows]), labels=[0, 1])

with open(sys.argv[2], "wb") as file:
    pickle.dump(model, file)
