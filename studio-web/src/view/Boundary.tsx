// The last net: whatever fails while drawing ends here and not in a white page. The draft would fail again after a reload,
// so there is a way out of it that loses nothing.
import { Component, type ReactNode } from "react";
import { toText } from "../model/graph.ts";
import { app, graphNow, startFromExample } from "../state/app.ts";
import { setAside } from "../state/drafts.ts";
import { savePage } from "./files.ts";

export class Boundary extends Component<{ children: ReactNode }, { failure: string | null }> {
  override state = { failure: null };

  static getDerivedStateFromError(error: unknown): { failure: string } {
    return { failure: error instanceof Error ? error.message : String(error) };
  }

  private readonly restart = (): void => {
    setAside(toText(graphNow()));
    startFromExample();
    this.setState({ failure: null });
  };

  override render(): ReactNode {
    if (this.state.failure === null) return this.props.children;
    return (
      <main className="plain-page" role="alert">
        <h1>This page could not be drawn</h1>
        <p>It is a mistake in the studio, or the graph has something in it that the studio does not know.</p>
        <p><code>{this.state.failure}</code></p>
        {!app.get().readOnly && (
          <div className="button-row">
            <button type="button" className="primary" onClick={this.restart}>Start from the example</button>
            <button type="button" onClick={savePage}>Save what I had</button>
          </div>
        )}
      </main>
    );
  }
}
