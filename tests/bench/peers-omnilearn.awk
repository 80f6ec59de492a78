# OmniLearn's rule (arXiv 2503.17469, its published code) as a solution, asked once an epoch: a worker's batch b
# becomes b * mean(t) / t, if that is a change of 20 % or more, at least half of its even share and at most three times
# it (16 to 96 in place of 32), and all of them are scaled to the global batch.
#   awk -f peers-omnilearn.awk -v batch=1024 <snapshot
{
	delete f
	for (i = 2; i <= NF; i++) { split($i, kv, "="); f[kv[1]] = kv[2] }
}
$1 == "node" && f["role"] == "worker" && f["state"] == "up" && f["short"] > 0 {
	id[++n] = f["id"]; t[n] = f["short"]; b[n] = f["size"]; mean += f["short"]
}
END {
	mean /= n ? n : 1
	for (k = 1; k <= n; k++) {
		want = b[k] * mean / t[k]
		if (want < batch / n / 2) want = batch / n / 2
		if (want > batch / n * 3) want = batch / n * 3
		if (want >= 1.2 * b[k] || want <= 0.8 * b[k]) { b[k] = want; changed = 1 }
		sum += b[k]
	}
	if (!changed) { print "action kind=none"; exit }
	left = batch
	for (k = 1; k <= n; k++) left -= b[k] = int(b[k] * batch / sum)
	for (k = 1; left > 0; k = k % n + 1) { b[k]++; left-- }
	for (k = 1; k <= n; k++) print "action kind=adjust-bs id=" id[k] " size=" b[k] " accum=1"
}
