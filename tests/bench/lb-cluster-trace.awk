# lb-cluster-trace: speeds of machines that others use, too, as `obs` records (speed-predict(1)).
#   awk -v seed=1 -v workers=32 -v n=1000 -f lb-cluster-trace.awk
# After what is published of Google's cluster trace, which LB-BSP emulates (5.3): nearly all machines
# are of one class, one in 16 has twice the processors; on each run about ten tasks of others, most
# of them small and long, a few large; they come and go (jumps), and use more or less from step to
# step (drifts).  What is left of the processors is the worker's, but a quarter that it gets in any
# case; where memory is short, less.  Besides 1 % of noise and, once in `rarely` steps (1000), one to
# three slow ones, neither of which any load shows (spikes).
# flicker=0.1: and what others use is so much more or less in each step.
# A task's length is counted in steps, each about as long as an iteration: an hour of the trace in
# some minutes.  clean= is the speed without noise and spikes.  cpu= and mem= are seen with an error
# of 0.005.  The seed decides everything.
function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function gauss(  i, sum) { sum = -6; for (i = 0; i < 12; i++) sum += u(); return sum }
function clip(x, low, high) { return x < low ? low : x > high ? high : x }
function arrive(w, c, m, life,  t) {
	t = ++tasks[w]
	cpu[w, t] = c; mem[w, t] = m; ends[w, t] = k - life * log(u())
}
BEGIN {
	state = seed * 7919 + 12345
	if (!rarely) rarely = 1000
	for (i = 0; i < 20; i++) u()
	for (w = 0; w < workers; w++) base[w] = 200 * (w % 16 == 5 ? 2 : 1) * (0.95 + 0.1 * u())
	for (k = -1000; k < n; k++) for (w = 0; w < workers; w++) {
		if (u() < 1 / 30) arrive(w, -0.025 * log(u()), -0.02 * log(u()), 300)
		if (u() < 1 / 500) arrive(w, 0.15 + 0.35 * u(), 0.05 + 0.25 * u(), 150)
		c = 0.04; m = 0.2
		for (t = first[w] + 1; t <= tasks[w]; t++) {
			if (k >= ends[w, t]) {
				if (t == first[w] + 1) first[w]++
				continue
			}
			c += cpu[w, t]; m += mem[w, t]
		}
		sway[w] += -0.1 * sway[w] + 0.015 * gauss()
		if (flicker) c += flicker * gauss()
		c = clip(c + sway[w], 0, 1); m = clip(m + sway[w] / 4, 0, 1)
		if (k < 0) continue
		clean = base[w] * (1 - 0.75 * c) * (m > 0.75 ? 1 - 2 * (m - 0.75) : 1)
		if (spike[w] > 0) spike[w]--
		else if (u() < 1 / rarely) { spike[w] = 1 + int(3 * u()); deep[w] = 0.6 + 0.3 * u() }
		v = clean * (1 + 0.01 * gauss()) * (spike[w] > 0 ? deep[w] : 1)
		printf "obs id=w%d k=%d cpu=%.3f mem=%.3f speed=%.4f clean=%.4f\n", w, k,
			clip(c + 0.005 * gauss(), 0, 1), clip(m + 0.005 * gauss(), 0, 1), v, clean
	}
}
