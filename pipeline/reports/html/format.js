// Numbers and times as text for people; values.py produces the same strings for tables.
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const COUNT_UNITS = ["", "k", "M", "G", "T"];

function scaled(value, base, units, gap) {
  let size = Math.abs(value);
  let unit = 0;
  while (unit < units.length - 1 && size >= base * 0.9995) {
    size /= base;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  const fixed = size.toFixed(digits);
  const text = digits ? fixed.replace(/0+$/, "").replace(/\.$/, "") : fixed;
  return (value < 0 ? "\u2212" : "") + text + (units[unit] ? gap + units[unit] : "");
}

function formatBytes(value) {
  return scaled(value, 1024, BYTE_UNITS, "\u00a0");
}

function formatCount(value) {
  return (value < 0 ? "\u2212" : "") + String(Math.abs(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function formatValue(value, unit) {
  return unit === "bytes" ? formatBytes(value) : formatCount(value);
}

function formatTick(value, unit) {
  return unit === "bytes" ? formatBytes(value) : scaled(value, 1000, COUNT_UNITS, "");
}

function formatShare(part, whole) {
  const percent = whole ? (100 * part) / whole : 0;
  return (percent > 0 && percent < 0.1 ? "< 0.1" : percent.toFixed(percent < 9.95 ? 1 : 0)) + "\u00a0%";
}

function formatTime(milliseconds, withDay = true, withClock = true) {
  const iso = new Date(milliseconds).toISOString();
  return [withDay ? iso.slice(0, 10) : "", withClock ? iso.slice(11, 16) : ""].filter(Boolean).join(" ");
}

// Evenly spaced round values from at most `low` to at least `high`, about `wanted` of them.
function ticks(low, high, unit, wanted) {
  const span = high - low || 1;
  const base = unit === "bytes" ? 1024 ** Math.max(0, Math.floor(Math.log(span / wanted) / Math.log(1024))) : 1;
  const raw = span / wanted / base;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= raw);
  const step = Math.max(factor * power * base, 1);
  const values = [];
  for (let index = Math.floor(low / step); index <= Math.ceil(high / step); index += 1) values.push(index * step);
  return values;
}
