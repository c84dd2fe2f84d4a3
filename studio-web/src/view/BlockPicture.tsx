// What a block gives: a heat-map for tensors, numbers for shapes and sequences. A Viewer shows what is wired into it, larger.
import { tensorKey, wireInto } from "../model/graph.ts";
import type { Room } from "../model/montage.ts";
import { shapeText } from "../model/tensor.ts";
import type { Block, BlockType, End, TensorInfo } from "../model/types.ts";
import { app } from "../state/app.ts";
import { useStore } from "../state/store.ts";
import { HeatMap, Numbers } from "./HeatMap.tsx";

export const BLOCK_ROOM: Room = { width: 236, height: 160, largestCell: 32 };
export const VIEWER_ROOM: Room = { width: 396, height: 330, largestCell: 44 };

const isPicture = (info: TensorInfo): boolean => info.kind === "tensor" || info.kind === "indices";

export function BlockPicture({ block, type, room }: { block: Block; type: BlockType; room?: Room }) {
  const isViewer = type.outputs.length === 0;
  const from = useStore(app, (state) => (isViewer ? wireInto(state.history.present, block.id, type.pins[0]!.name)?.from : undefined));
  const ends: End[] = isViewer ? (from ? [from] : []) : type.outputs.map((output) => [block.id, output.name]);
  const result = useStore(app, (state) => state.result?.blocks[isViewer && from ? from[0] : block.id]);
  const shown = ends.flatMap((end) => {
    const info = result?.outputs[end[1]];
    return info ? [{ end, info }] : [];
  });
  if (shown.length === 0) return null;
  const pictures = shown.filter(({ info }) => isPicture(info));
  const main = pictures.find(({ end }) => end[1] === block.ui?.output) ?? pictures[0];
  return (
    <div className="picture">
      {main && <Caption end={main.end} info={main.info} several={pictures.length > 1} />}
      {main && <HeatMap owner={block.id} tensorKey={tensorKey(main.end)} info={main.info} view={block.ui} name={`${block.label || block.op} ${main.end[1]}`} room={room ?? (isViewer ? VIEWER_ROOM : BLOCK_ROOM)} />}
      {shown.filter(({ info }) => !isPicture(info)).map(({ end, info }) => (
        <div key={end[1]} className="number-row">
          {shown.length > 1 && <span className="tensor-name">{end[1]}</span>}
          <Numbers info={info} />
        </div>
      ))}
    </div>
  );
}

function Caption({ end, info, several }: { end: End; info: TensorInfo; several: boolean }) {
  return (
    <p className="tensor-line">
      {several && <span className="tensor-name">{end[1]}</span>}
      <span>{shapeText(info.shape)}</span> <span className="tensor-type">{info.dtype}</span>
    </p>
  );
}
