// What the page knows: one viewer's conversations, kept up to date by the stream of changes.

export class Store {
  constructor(state) {
    Object.assign(this, state);
    this.messages = new Map(Object.entries(state.messages).map(([id, list]) => [id, byTs(list)]));
    this.ephemerals = byTs(state.ephemerals);
    this.views = new Map(state.views.map((view) => [view.id, view]));
  }

  user(id) {
    if (id === "USLACKBOT") return { id, name: "Slackbot", real_name: "Slackbot" };
    return this.users.find((user) => user.id === id) ?? { id, name: id, real_name: id };
  }

  channel(id) {
    return this.channels.find((channel) => channel.id === id);
  }

  name(id) {
    return this.users.find((user) => user.id === id)?.name ?? this.channel(id)?.name;
  }

  /** What stands in the channel itself, the viewer's ephemeral messages among it, oldest first. */
  roots(channel) {
    return this.all(channel).filter((message) => !message.thread_ts || message.thread_ts === message.ts);
  }

  thread(channel, root) {
    return this.all(channel).filter((message) => message.ts === root || message.thread_ts === root);
  }

  replies(channel, root) {
    return this.thread(channel, root).filter((message) => message.ts !== root && !message.is_ephemeral);
  }

  all(channel) {
    const whispers = [...this.ephemerals.values()].filter((message) => message.channel === channel);
    return [...(this.messages.get(channel)?.values() ?? []), ...whispers].sort((a, b) => (a.ts < b.ts ? -1 : 1));
  }

  /** The change is known; true when the whole state must be read anew. */
  apply({ kind, channel, body, connected }) {
    switch (kind) {
      case "posted":
      case "edited":
        if (!this.messages.has(channel)) return true;
        this.messages.get(channel).set(body.ts, body);
        return false;
      case "reaction":
        this.messages.get(channel)?.set(body.ts, body.message);
        return false;
      case "deleted":
        this.messages.get(channel)?.delete(body.ts);
        return false;
      case "ephemeral":
        this.ephemerals.set(body.ts, body);
        return false;
      case "ephemeral_gone":
        this.ephemerals.delete(body.ts);
        return false;
      case "view":
        if (body.closed) this.views.delete(body.closed);
        else this.views.set(body.view.id, body.view);
        return false;
      case "home":
        this.home = body.view;
        return false;
      case "presence":
        this.connected = connected;
        return false;
      default:
        return true;
    }
  }
}

function byTs(list) {
  return new Map(list.map((message) => [message.ts, message]));
}
