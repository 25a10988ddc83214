// The shortcodes that bots use. Others stay as they are written.

import { el } from "./dom.js";

// Drawn here, because a machine without an emoji font shows boxes for them.
const DRAWN = {
  white_check_mark: "check", heavy_check_mark: "check", x: "cross", eyes: "eyes", hourglass: "hourglass",
  hourglass_flowing_sand: "hourglass", warning: "warning", no_entry: "stop", octagonal_sign: "stop", no_entry_sign: "stop",
  crescent_moon: "crescent", chart_with_upwards_trend: "chart", rocket: "rocket", "+1": "thumb", thumbsup: "thumb",
};

const TABLE = {
  "+1": "👍", thumbsup: "👍", "-1": "👎", thumbsdown: "👎", ok_hand: "👌", wave: "👋", clap: "👏", pray: "🙏", raised_hands: "🙌",
  eyes: "👀", muscle: "💪", point_right: "👉", point_down: "👇", white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌",
  negative_squared_cross_mark: "❎", no_entry: "⛔", no_entry_sign: "🚫", octagonal_sign: "🛑", warning: "⚠️",
  rotating_light: "🚨", exclamation: "❗", question: "❓", grey_question: "❔", bangbang: "‼️", information_source: "ℹ️",
  hourglass: "⌛", hourglass_flowing_sand: "⏳", stopwatch: "⏱️", alarm_clock: "⏰", clock1: "🕐", clock3: "🕒",
  arrow_right: "➡️", arrow_left: "⬅️", arrow_up: "⬆️", arrow_down: "⬇️", arrow_forward: "▶️", double_vertical_bar: "⏸️",
  pause_button: "⏸️", black_square_for_stop: "⏹️", arrows_counterclockwise: "🔄", repeat: "🔁", recycle: "♻️",
  heavy_plus_sign: "➕", heavy_minus_sign: "➖", rocket: "🚀", fire: "🔥", zap: "⚡", boom: "💥", star: "⭐", sparkles: "✨",
  tada: "🎉", trophy: "🏆", medal: "🏅", first_place_medal: "🥇", chart_with_upwards_trend: "📈",
  chart_with_downwards_trend: "📉", bar_chart: "📊", clipboard: "📋", memo: "📝", pencil: "📝", pencil2: "✏️", bulb: "💡",
  mag: "🔍", bell: "🔔", no_bell: "🔕", loudspeaker: "📢", speech_balloon: "💬", thought_balloon: "💭", lock: "🔒", key: "🔑",
  gear: "⚙️", wrench: "🔧", hammer_and_wrench: "🛠️", hammer: "🔨", package: "📦", floppy_disk: "💾", desktop_computer: "🖥️",
  computer: "💻", thermometer: "🌡️", snowflake: "❄️", ice_cube: "🧊", battery: "🔋", electric_plug: "🔌", robot_face: "🤖",
  brain: "🧠", test_tube: "🧪", microscope: "🔬", alembic: "⚗️", dna: "🧬", seedling: "🌱", bug: "🐛", ghost: "👻", skull: "💀",
  moon: "🌔", crescent_moon: "🌙", full_moon: "🌕", new_moon: "🌑", zzz: "💤", sleeping: "😴", sunrise: "🌅", sunny: "☀️",
  coffee: "☕", beer: "🍺", moneybag: "💰", dollar: "💵", red_circle: "🔴", large_orange_circle: "🟠", large_yellow_circle: "🟡",
  large_green_circle: "🟢", large_blue_circle: "🔵", white_circle: "⚪", black_circle: "⚫", large_green_square: "🟩",
  large_red_square: "🟥", white_large_square: "⬜", black_large_square: "⬛", green_heart: "💚", heart: "❤️", smile: "😄",
  smiley: "😃", grinning: "😀", slightly_smiling_face: "🙂", wink: "😉", joy: "😂", thinking_face: "🤔", sweat_smile: "😅",
  disappointed: "😞", cry: "😢", sob: "😭", scream: "😱", sunglasses: "😎", partying_face: "🥳", hand: "✋", link: "🔗",
  paperclip: "📎", file_folder: "📁", page_facing_up: "📄", framed_picture: "🖼️", calendar: "📅", checkered_flag: "🏁",
  construction: "🚧", traffic_light: "🚥", fast_forward: "⏩", rewind: "⏪", top: "🔝", new: "🆕", free: "🆓", cool: "🆒", sos: "🆘",
};

/** The emoji of a shortcode, as an image or a character; null for one that is not known. */
export function emoji(name) {
  if (Object.hasOwn(DRAWN, name)) {
    return el("img", { class: "emoji", src: `/static/emoji-${DRAWN[name]}.svg`, alt: `:${name}:`, title: `:${name}:` });
  }
  return Object.hasOwn(TABLE, name) ? TABLE[name] : null;
}

/** Plain text with its shortcodes turned into emoji, as a list of nodes. */
export function withEmoji(text) {
  return text.split(/(:[a-z0-9_+'-]+:)/).map((part) => (/^:.+:$/.test(part) ? (emoji(part.slice(1, -1)) ?? part) : part));
}
