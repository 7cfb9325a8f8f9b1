// How states look: a word, a glyph and a tone. Colour alone never says anything.
export const NONE = "<none>";

const LOOKS = {
  InUse: ["●", "green"], Used: ["●", "green"], Available: ["●", "green"], Ready: ["●", "green"], running: ["●", "green"],
  Reserved: ["◐", "blue"], Held: ["◐", "blue"], Running: ["◐", "blue"],
  Free: ["○", "grey"], Pending: ["○", "grey"], Succeeded: ["✓", "grey"], Deleting: ["○", "grey"], Waiting: ["○", "grey"],
  Unknown: ["?", "grey"], unknown: ["?", "grey"], absent: ["○", "yellow"], stale: ["▲", "yellow"],
  Tainted: ["▲", "yellow"], "Ready,SchedulingDisabled": ["▲", "yellow"],
  NotReady: ["✖", "red"], Gone: ["✖", "red"], Failed: ["✖", "red"], Aborted: ["✖", "red"], Unreadable: ["✖", "red"],
  Finished: ["✓", "grey"], error: ["✖", "red"], leak: ["✖", "red"], warning: ["▲", "yellow"], info: ["ℹ", "cyan"],
};

// A claim whose state is the name of a problem looks like the grade of the problem.
export const look = (state, grade) => LOOKS[state] ?? LOOKS[grade] ?? ["▲", "yellow"];

// Letters of the map of a node, in the order of the legend.
export const DEVICE_STATES = [["U", "Used"], ["H", "Held"], ["F", "Free"], ["T", "Tainted"], ["G", "Gone"], ["X", "Unusable"], ["?", "Unknown"]];
export const stateOfLetter = Object.fromEntries(DEVICE_STATES);

const plain = new Intl.NumberFormat("en");
export const number = (value) => plain.format(value);
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

// What is only worth knowing is no problem, whatever view counts.
export const problems = (count, notes) => plural(count, "problem") + (notes ? `, ${plural(notes, "note")}` : "");

export function clock(date) {
  return date.toTimeString().slice(0, 8);
}

// A duration as kubectl prints ages.
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 120) return `${whole}s`;
  if (whole < 7200) return `${Math.floor(whole / 60)}m`;
  if (whole < 172800) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}
