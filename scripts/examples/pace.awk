#!/usr/bin/awk -f
# A solution in a few lines: sizes in proportion to speed, so that all workers finish at the same time.
# In: a snapshot of bpt-monitor(8). Out: actions. Use: SOLUTION=/path/to/pace.awk (see trainctl(1)).
{
	delete f
	for (i = 2; i <= NF; i++) { split($i, kv, "="); f[kv[1]] = kv[2] }
}
$1 == "node" && f["role"] == "worker" && f["state"] == "up" && f["speed-short"] > 0 {
	id[++n] = f["id"]; speed[n] = f["speed-short"]; total += speed[n]; sizes += f["size"]
}
END {
	# batch= and least= come as arguments; without batch= the sum of the sizes seen is shared out anew.
	if (batch > 0) sizes = batch
	if (least < 1) least = 1
	if (n == 0 || sizes < n * least) { print "action kind=none"; exit }
	left = sizes
	for (i = 1; i <= n; i++) {
		size[i] = int(sizes * speed[i] / total)
		if (size[i] < least) size[i] = least
		left -= size[i]
	}
	for (i = 1; left != 0; i = i % n + 1) {
		step = left > 0 ? 1 : -1
		if (size[i] + step >= least) { size[i] += step; left -= step }
	}
	for (i = 1; i <= n; i++) print "action kind=adjust-bs id=" id[i] " size=" size[i] " accum=1"
}
