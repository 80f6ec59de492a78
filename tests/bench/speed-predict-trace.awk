# speed-predict-trace: a made trace of workers on shared nodes, as `obs` records.
#   awk -v seed=1 -v workers=4 -v n=3000 -v shown=1 -f speed-predict-trace.awk
# Tasks of others come and go, each with its CPU and memory (jumps), both wander besides (drifts);
# the speed is a bent function of both, with 2 % noise, and now and then one to three slow iterations
# that no load shows (spikes).  cpu= and mem= are seen with an error of 0.01.  clean= is the speed
# without noise and spikes: who knew the function and the loads would say that.
# -v bent=1: another kind. The speed is a power of the CPU that is free (each worker's own), a part of
# that beyond a threshold of the memory, with 3 % noise; a spike is half the speed for one iteration.
function u() { state = (state * 16807) % 2147483647; return state / 2147483647 }
function gauss(  i, sum) { sum = -6; for (i = 0; i < 12; i++) sum += u(); return sum }
function clip(x, low, high) { return x < low ? low : x > high ? high : x }
BEGIN {
	state = seed * 7919 + 12345
	for (i = 0; i < 20; i++) u()
	for (w = 0; w < workers; w++) base[w] = 60 + 240 * u()
	for (w = 0; w < workers && bent; w++) {
		power[w] = 0.7 + 1.6 * u(); threshold[w] = 0.65 + 0.2 * u(); drop[w] = 0.5 + 0.25 * u()
	}
	for (k = 0; k < n; k++) for (w = 0; w < workers; w++) {
		if (u() < (bent ? 1 / 80 : 1 / 60)) {
			t = ++tasks[w]
			cpu[w, t] = 0.1 + 0.4 * u(); mem[w, t] = 0.05 + 0.3 * u()
			ends[w, t] = k - 100 * log(u())
		}
		c = 0.08; m = 0.25
		for (t = 1; t <= tasks[w]; t++) if (k < ends[w, t]) { c += cpu[w, t]; m += mem[w, t] }
		drift[w] += -0.01 * drift[w] + 0.012 * gauss()
		sway[w] += -0.01 * sway[w] + 0.012 * gauss()
		c = clip(c + drift[w], 0, 0.97); m = clip(m + sway[w], 0, 1)
		if (bent)
			clean = base[w] * exp(power[w] * log(1 - 0.9 * c)) * (m > threshold[w] ? drop[w] : 1)
		else
			clean = base[w] * (1 - 0.8 * c * sqrt(c)) * (m > 0.75 ? 1 - 2 * (m - 0.75) : 1)
		if (spike[w] > 0) spike[w]--
		else if (bent && u() < 0.014) { spike[w] = 1; deep[w] = 0.5 }
		else if (!bent && u() < 0.025) { spike[w] = 1 + int(3 * u()); deep[w] = 0.6 + 0.3 * u() }
		v = clean * (1 + (bent ? 0.03 : 0.02) * gauss()) * (spike[w] > 0 ? deep[w] : 1)
		seen = sprintf("cpu=%.3f mem=%.3f ", clip(c + 0.01 * gauss(), 0, 1),
			clip(m + 0.01 * gauss(), 0, 1))
		printf "obs id=w%d k=%d %sspeed=%.4f clean=%.4f\n", w, k, shown ? seen : "", v, clean
	}
}
